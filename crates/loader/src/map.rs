//! A model file as bytes: the only unsafe code of the crate.
//!
//! # The file changing under the map
//! The bytes belong to the operating system's page cache, not to this process. Where another process rewrites the file
//! in place, later reads see the new bytes; where it truncates the file, reading a page past the new end kills this
//! process (SIGBUS on Unix; Windows refuses the truncation). No lock prevents that: Unix locks are advisory. Two rules
//! keep the damage to wrong numbers or that signal: everything read from the map is plain bytes, for which any value is
//! valid, and nothing that memory safety rests on (a length, an offset) is read from the map a second time.
//! To update a model beside a running process, write a new file and rename it: the map keeps the old one.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

/// A whole file, mapped read-only.
#[derive(Debug)]
pub(crate) struct FileMap(memmap2::Mmap);

impl FileMap {
    /// Maps a file. Nothing is read yet.
    #[allow(unsafe_code)]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        // SAFETY: a read-only map of a file opened for reading; the slice lives as long as the map. That others leave
        // the file alone cannot be enforced; the module's documentation says what follows if they do not.
        let map = unsafe { memmap2::MmapOptions::new().map(&file)? };
        Ok(FileMap(map))
    }

    /// Hints that `range` will soon be read, so that the system can fetch it in the background.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(range) = self.clamp(range) {
            // A hint: a system that refuses it reads the pages on demand.
            let _ = self.0.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Hints that `range` was read for the last time in a while; its pages stop counting as this process' memory.
    /// Reading them again is allowed and fetches them again.
    #[allow(unsafe_code)]
    pub(crate) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(range) = self.clamp(range) {
            // SAFETY: the map is shared and read-only, so no page holds anything that the file does not: dropped pages
            // come back from the file with the same bytes. The range lies inside the map.
            let _ =
                unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    #[cfg(unix)]
    fn clamp(&self, range: Range<usize>) -> Option<Range<usize>> {
        let range = range.start..range.end.min(self.0.len());
        (range.start < range.end).then_some(range)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
