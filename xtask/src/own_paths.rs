//! The folders of the machine that builds, which no published program names: the folders of the crates, and the
//! workspace. Messages of panics have the names of source files.

use crate::crates::Crates;
use crate::shell::{Error, Result};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// What stands between two flags in [`VARIABLE`].
const SEPARATOR: &str = "\x1f";

/// Where cargo takes flags for rustc from that may have blanks.
const VARIABLE: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Folders, and what they are called instead.
pub(crate) struct OwnPaths(BTreeMap<PathBuf, &'static str>);

impl OwnPaths {
    /// Those of this machine.
    ///
    /// # Errors
    /// When cargo fails.
    pub(crate) fn read() -> Result<Self> {
        let root = fs::canonicalize(".").map_err(|e| Error::file("enter", ".".as_ref(), e))?;
        let registries = Crates::read(None)?.registries();
        Ok(OwnPaths(registries.into_iter().map(|folder| (folder, "crates")).chain([(root, "wgoose")]).collect()))
    }

    /// The variable that makes cargo leave them out, and its value.
    pub(crate) fn left_out(&self) -> (&'static str, OsString) {
        let flag = |(folder, name): (&PathBuf, &&str)| {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.extend([folder.as_os_str(), OsStr::new("="), OsStr::new(name)]);
            flag
        };
        let flags: Vec<OsString> = self.0.iter().map(flag).collect();
        (VARIABLE, flags.join(OsStr::new(SEPARATOR)))
    }

    /// Looks for them, and for the user's folder, in what was built.
    ///
    /// # Errors
    /// Names the folder that a file names.
    pub(crate) fn look_for(&self, file: &Path) -> Result<()> {
        let bytes = fs::read(file).map_err(|e| Error::file("read", file, e))?;
        let home = env::home_dir().filter(|home| home.parent().is_some());
        let found = self.0.keys().chain(&home).find(|folder| names(&bytes, folder));
        match found {
            Some(folder) => Err(Error::Other(format!("{} names {}", file.display(), folder.display()))),
            None => Ok(()),
        }
    }
}

/// Whether something in a folder is named.
fn names(bytes: &[u8], folder: &Path) -> bool {
    let mut folder = folder.as_os_str().as_encoded_bytes().to_vec();
    folder.push(std::path::MAIN_SEPARATOR as u8);
    bytes.windows(folder.len()).any(|window| window == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, other) = (folder.path().join("of mine"), folder.path().join("other"));
        let own = OwnPaths(BTreeMap::from([(mine.clone(), "crates"), (other.clone(), "wgoose")]));
        let file = folder.path().join("program");
        let with = |text: &Path| {
            fs::write(&file, [b"\0\xff", text.as_os_str().as_encoded_bytes(), b"\0"].concat()).unwrap();
            own.look_for(&file)
        };
        assert!(with(&mine).is_ok() && with("crates/lib.rs".as_ref()).is_ok());
        let error = with(&mine.join("lib.rs")).unwrap_err().to_string();
        assert!(error.ends_with(&format!("names {}", mine.display())), "{error}");
        let (variable, flags) = own.left_out();
        let want =
            [(&mine, "crates"), (&other, "wgoose")].map(|(f, to)| format!("--remap-path-prefix={}={to}", f.display()));
        assert_eq!((variable, flags), ("CARGO_ENCODED_RUSTFLAGS", want.join("\x1f").into()));
    }
}
