//! The workspace that a chore works in: the one of the xtask that cargo runs. A folder that was copied with its builds is another
//! workspace with the same programs, so it is looked for at run time.

use crate::shell::{Error, Result};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Makes the workspace the current folder. Every path and command of a chore is relative to it.
///
/// # Errors
/// There is none, or it cannot be entered.
pub(crate) fn enter() -> Result<()> {
    let here = env::current_dir().map_err(|e| Error::file("find", ".".as_ref(), e))?;
    let root = root(env::var_os("CARGO_MANIFEST_DIR"), &here).ok_or_else(|| {
        Error::Other(format!("{} is in no wgoose workspace: change to one, or run `cargo xtask` there", here.display()))
    })?;
    env::set_current_dir(&root).map_err(|e| Error::file("enter", &root, e))
}

/// The workspace around the package that cargo runs, or around the current folder where xtask was not started by cargo.
fn root(package: Option<OsString>, here: &Path) -> Option<PathBuf> {
    let start = package.map_or_else(|| here.to_owned(), PathBuf::from);
    start.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_workspace_belongs_to_the_running_package() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        for name in ["original", "copy"] {
            fs::create_dir_all(of(name).join("xtask/src")).unwrap();
            fs::create_dir_all(of(name).join("crates")).unwrap();
            fs::write(of(name).join("xtask/Cargo.toml"), "").unwrap();
        }
        let (original, copy) = (of("original"), of("copy"));
        assert_eq!(root(Some(copy.join("xtask").into()), &original.join("crates")), Some(copy));
        assert_eq!(root(None, &original.join("crates")), Some(original));
        assert_eq!(root(None, folder.path()), None);
    }
}
