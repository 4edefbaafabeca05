//! An open model file: its bytes through a map and by position, and whether they are still the bytes of the file that
//! was opened. One handle serves all three, so that a file renamed over this one changes nothing.

use crate::error::LoadError;
use crate::map::FileMap;
use crate::read_at::ReadAt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// An open file; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ModelFile {
    path: PathBuf,
    handle: Arc<File>,
    map: Arc<FileMap>,
    /// When it was last written before it was opened, where the system can tell.
    modified: Option<SystemTime>,
}

impl ModelFile {
    /// Opens a regular file. Nothing is read yet.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        let handle = Arc::new(wgoose_files::open(path).map_err(io)?);
        let metadata = handle.metadata().map_err(io)?;
        let map = Arc::new(FileMap::of(&handle, metadata.len()).map_err(io)?);
        let modified = metadata.modified().ok();
        Ok(ModelFile { path: path.to_owned(), handle, map, modified })
    }

    /// The file, as given to [`ModelFile::open`].
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All its bytes, through the map.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.bytes()
    }

    /// Fills `out` from byte `offset` on, by position.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), LoadError> {
        self.handle.read_exact_at(out, offset).map_err(|source| self.read_failed(offset, source))
    }

    /// Why a read from byte `offset` on failed: the file was truncated, or what the system said.
    pub(crate) fn read_failed(&self, offset: u64, source: io::Error) -> LoadError {
        let found = match source.kind() {
            io::ErrorKind::UnexpectedEof => self.handle.metadata().ok(),
            _ => None,
        };
        let shortened = found.and_then(|metadata| self.shortened(metadata.len()));
        shortened.unwrap_or_else(|| self.unreadable(offset, source))
    }

    /// Whether length and time of the last write are those at opening, and every page read through the map was there.
    pub(crate) fn check_unchanged(&self) -> Result<(), LoadError> {
        let metadata = self.handle.metadata().map_err(|source| LoadError::Io { path: self.path.clone(), source })?;
        if let Some(error) = self.shortened(metadata.len()) {
            return Err(error);
        }
        if metadata.len() != self.opened_len() || metadata.modified().ok() != self.modified {
            return Err(LoadError::Rewritten { path: self.path.clone() });
        }
        match self.map.missing() {
            Some(offset) => {
                let source = io::Error::other("the system could not bring this page into memory");
                Err(self.unreadable(offset as u64, source))
            }
            None => Ok(()),
        }
    }

    /// Hints that a range will soon be read.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        let range = range.start..range.end.min(self.bytes().len());
        if !range.is_empty() {
            #[cfg(target_os = "linux")]
            crate::page_cache::fetch(&self.handle, range);
            #[cfg(not(target_os = "linux"))]
            self.map.will_need(range);
        }
    }

    /// Hints that a range was read through the map for the last time in a while.
    pub(crate) fn release(&self, range: Range<usize>) {
        self.map.release(range);
    }

    fn opened_len(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn shortened(&self, found: u64) -> Option<LoadError> {
        let expected = self.opened_len();
        (found < expected).then(|| LoadError::Shortened { path: self.path.clone(), expected, found })
    }

    fn unreadable(&self, offset: u64, source: io::Error) -> LoadError {
        LoadError::Read { path: self.path.clone(), offset, source }
    }
}
