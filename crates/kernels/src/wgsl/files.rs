//! The WGSL files: the files of the binary, and the files of a folder, which replace or extend them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Path (below `kernels-wgsl/`, without `.wgsl`) and text of every file, as they were when the binary was built.
const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Largest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Most files of a folder, and most bytes of them all: many times those of the binary.
const MOST_FILES: usize = 1000;
const MOST_BYTES_IN_ALL: usize = 16 << 20;

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
    #[error("{} has no kernels: it must have WGSL files in ops/OP/, lib/, phases/ or device/", path.display())]
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

/// How much of a folder was read.
#[derive(Default)]
struct Found {
    files: usize,
    bytes: usize,
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
        let mut found = Found::default();
        let read = |path: &Path, source| FolderError::Read { path: path.to_owned(), source };
        std::fs::read_dir(folder).map_err(|e| read(folder, e))?;
        for room in ["ops", "lib", "phases", "device"] {
            let room = folder.join(room);
            if room.is_dir() {
                all.add(folder, &room, DEPTH, &mut found)?;
            }
        }
        match found.files {
            0 => Err(FolderError::Empty { path: folder.to_owned() }),
            _ => Ok(all),
        }
    }

    fn add(&mut self, root: &Path, folder: &Path, depth: usize, found: &mut Found) -> Result<(), FolderError> {
        let read = |path: &Path, source| FolderError::Read { path: path.to_owned(), source };
        let wrong = |path: &Path, why| FolderError::File { path: path.to_owned(), why };
        for entry in std::fs::read_dir(folder).map_err(|e| read(folder, e))? {
            let path = entry.map_err(|e| read(folder, e))?.path();
            let about = std::fs::metadata(&path).map_err(|e| read(&path, e))?;
            let is_wgsl = path.extension().is_some_and(|e| e == "wgsl");
            if about.is_dir() && !is_wgsl {
                if depth == 0 {
                    return Err(wrong(&path, "folders are nested too deeply"));
                }
                self.add(root, &path, depth - 1, found)?;
                continue;
            }
            if !is_wgsl {
                continue;
            }
            // Asked before it is opened: a pipe would be waited for.
            if !about.is_file() {
                return Err(wrong(&path, "it is no ordinary file"));
            }
            let mut text = String::new();
            let file = std::fs::File::open(&path).map_err(|e| read(&path, e))?;
            file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|e| read(&path, e))?;
            if text.len() as u64 > MOST_BYTES {
                return Err(wrong(&path, "it is larger than 1 MiB: no kernel is"));
            }
            (found.files, found.bytes) = (found.files + 1, found.bytes + text.len());
            if found.files > MOST_FILES || found.bytes > MOST_BYTES_IN_ALL {
                return Err(wrong(root, "it has more than 1000 files of kernels, or they have more than 16 MiB"));
            }
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("");
            let parts = name.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>();
            let name = parts.ok_or_else(|| wrong(&path, "its name is not UTF-8"))?.join("/");
            let standing = match self.files.get(name.as_str()) {
                Some(file) if file.text == text => Standing::Embedded,
                Some(_) => Standing::Changed,
                None => Standing::New,
            };
            self.files.insert(name.into(), File { text: Cow::Owned(text), standing });
        }
        Ok(())
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
