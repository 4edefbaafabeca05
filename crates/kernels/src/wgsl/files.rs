//! The WGSL files: those in the binary, and those of a folder that takes their place or adds to them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Path (below `kernels-wgsl/`, without `.wgsl`) and text of every file, as they were when the binary was built.
const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Largest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Folders below the one that is read.
const DEPTH: usize = 8;

/// Why a folder of kernels cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No file in it is laid out as in `kernels-wgsl/`.
    #[error("{} has no kernels: it must have WGSL files in ops/OP/, lib/, stages/ or device/", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A file that no kernel can be.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// How a file stands to those in the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It is one of them.
    Embedded,
    /// It takes the place of one that reads otherwise.
    Changed,
    /// There is none of that name.
    New,
}

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) text: Cow<'static, str>,
    pub(crate) standing: Standing,
}

/// All files by path, as they were read once.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    files: BTreeMap<Arc<str>, File>,
}

impl Files {
    /// Those of the binary.
    pub(crate) fn embedded() -> Self {
        let file = |text| File { text: Cow::Borrowed(text), standing: Standing::Embedded };
        Files { files: EMBEDDED.iter().map(|(path, text)| (Arc::from(*path), file(*text))).collect() }
    }

    /// Those of the binary, with what a folder has that is laid out alike.
    pub(crate) fn with_folder(folder: &Path) -> Result<Self, FolderError> {
        let mut all = Files::embedded();
        let mut found = 0;
        let read = |path: &Path, source| FolderError::Read { path: path.to_owned(), source };
        std::fs::read_dir(folder).map_err(|e| read(folder, e))?;
        for room in ["ops", "lib", "stages", "device"] {
            let room = folder.join(room);
            if room.is_dir() {
                found += all.add(folder, &room, DEPTH)?;
            }
        }
        match found {
            0 => Err(FolderError::Empty { path: folder.to_owned() }),
            _ => Ok(all),
        }
    }

    fn add(&mut self, root: &Path, folder: &Path, depth: usize) -> Result<usize, FolderError> {
        let read = |path: &Path, source| FolderError::Read { path: path.to_owned(), source };
        let wrong = |path: &Path, why| FolderError::File { path: path.to_owned(), why };
        let mut found = 0;
        for entry in std::fs::read_dir(folder).map_err(|e| read(folder, e))? {
            let path = entry.map_err(|e| read(folder, e))?.path();
            let about = std::fs::metadata(&path).map_err(|e| read(&path, e))?;
            if about.is_dir() {
                if depth == 0 {
                    return Err(wrong(&path, "folders are nested too deeply"));
                }
                found += self.add(root, &path, depth - 1)?;
                continue;
            }
            if path.extension().is_none_or(|e| e != "wgsl") {
                continue;
            }
            if about.len() > MOST_BYTES {
                return Err(wrong(&path, "it is larger than 1 MiB: no kernel is"));
            }
            let text = std::fs::read_to_string(&path).map_err(|e| read(&path, e))?;
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("");
            let parts = name.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>();
            let name = parts.ok_or_else(|| wrong(&path, "its name is not UTF-8"))?.join("/");
            let standing = match self.files.get(name.as_str()) {
                Some(file) if file.text == text => Standing::Embedded,
                Some(_) => Standing::Changed,
                None => Standing::New,
            };
            self.files.insert(name.into(), File { text: Cow::Owned(text), standing });
            found += 1;
        }
        Ok(found)
    }

    /// The file of that path.
    pub(crate) fn get(&self, path: &str) -> Option<(&Arc<str>, &File)> {
        self.files.get_key_value(path)
    }

    /// All of them, by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &File)> {
        self.files.iter()
    }
}
