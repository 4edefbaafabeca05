//! A model file as bytes in memory.
//!
//! # The file changing under the map
//! The bytes belong to the operating system's page cache, not to this process, and no lock keeps other processes off
//! them: Unix locks are advisory. Three things can happen.
//!
//! - **The file is replaced** by renaming another over it. Map and handle keep the old one: nothing happens.
//! - **The file is rewritten in place.** Later reads see the new bytes. Everything read from the map is plain bytes, for
//!   which any value is valid, and no length or offset is read from it a second time: the numbers may be wrong, the process
//!   is not in danger. Names are checked to be UTF-8 where they are read and copied soon after; a writer in between, which
//!   takes microseconds of a rewrite at that moment, makes a wrong name.
//! - **A page cannot be had**, because the file was truncated or the disk fails. On Unix the system then sends SIGBUS,
//!   which would kill the process. `guard` catches it, puts zeros in the place of that page and all that follow, and
//!   remembers where. Windows refuses to truncate a mapped file; a failing disk is not caught there.
//!
//! After reading through the map, call [`Model::check_unchanged`](crate::Model::check_unchanged) before using what was
//! read. Large tensors should not come through the map at all: [`Model::read`](crate::Model::read) reports such
//! faults as errors in the first place.

#[cfg(unix)]
mod guard;

use std::fs::File;
use std::io;
use std::ops::Range;

/// A whole file, mapped read-only.
#[derive(Debug)]
pub(crate) struct FileMap {
    // Before the map, so that it is dropped before: a guard never covers memory that is someone else's by now.
    #[cfg(unix)]
    guard: guard::Guard,
    map: memmap2::Mmap,
}

impl FileMap {
    /// Maps the first `len` bytes of a file, which are all it has. Nothing is read yet.
    #[allow(unsafe_code)]
    pub(crate) fn of(file: &File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: a read-only map of a file opened for reading; the slice lives as long as the map. That others leave
        // the file alone cannot be enforced; the module's documentation says what follows if they do not.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file)? };
        Ok(FileMap {
            #[cfg(unix)]
            guard: guard::Guard::over(&map),
            map,
        })
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// From which byte on some read saw zeros because the system could not fetch a page of the file.
    pub(crate) fn missing(&self) -> Option<usize> {
        #[cfg(unix)]
        return self.guard.missing();
        #[cfg(not(unix))]
        None
    }

    /// Hints that `range`, which lies inside the map, will soon be read.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn will_need(&self, range: Range<usize>) {
        // A hint: a system that refuses it reads the pages on demand.
        #[cfg(unix)]
        let _ = self.map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Hints that `range`, which lies inside the map, was read for the last time in a while; its pages stop counting as
    /// this process' memory. Reading them again is allowed and fetches them again.
    #[allow(unsafe_code)]
    pub(crate) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if !range.is_empty() {
            let (start, len) = (range.start, range.len());
            // SAFETY: no page of the map was ever written, so none holds anything that it would not hold when it comes
            // back: the bytes of the file, or the guard's zeros. The range lies inside the map.
            let _ = unsafe { self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
