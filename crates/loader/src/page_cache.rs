//! The part of a file that the system holds in memory: for measuring cold starts, which begin with none of it. Linux
//! only.
//!
//! On file systems that live in memory (tmpfs) everything stays resident.

use std::io;
use std::path::Path;

/// Makes the system forget a file's pages, so that the next read comes from the disk. Unwritten changes are written
/// first. Pages that a process has mapped and touched stay: drop a model before evicting its file.
///
/// # Errors
/// What the system said; [`io::ErrorKind::Unsupported`] outside Linux.
pub fn evict(path: impl AsRef<Path>) -> io::Result<()> {
    system::evict(path.as_ref())
}

/// The fraction of a file's pages that are in memory, from 0 to 1; 1 for an empty file. Linux tells this of files that
/// the caller owns or may write; of others it says that all pages are.
///
/// # Errors
/// What the system said; [`io::ErrorKind::Unsupported`] outside Linux.
pub fn resident(path: impl AsRef<Path>) -> io::Result<f64> {
    system::resident(path.as_ref())
}

#[cfg(target_os = "linux")]
pub(crate) use system::fetch;

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::ops::Range;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    pub(super) fn evict(path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        file.sync_all()?; // pages with unwritten changes would stay
        advise(&file, 0..0, libc::POSIX_FADV_DONTNEED)
    }

    #[allow(unsafe_code)]
    pub(super) fn resident(path: &Path) -> io::Result<f64> {
        let file = File::open(path)?;
        // SAFETY: no byte of the map is read.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        // SAFETY: no argument to get wrong.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let mut pages = vec![0u8; map.len().div_ceil(page_size)];
        if pages.is_empty() {
            return Ok(1.0);
        }
        // SAFETY: the range is that of the map; one byte per page of it is written.
        if unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), map.len(), pages.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Only the lowest bit has a meaning.
        let resident = pages.iter().filter(|&page| page & 1 == 1).count();
        Ok(resident as f64 / pages.len() as f64)
    }

    /// Has the system read a range in the background. Whatever the range asked for, Linux fetches no more than its
    /// read-ahead window (128 KiB unless set otherwise) or one transfer of the disk: hence in pieces.
    pub(crate) fn fetch(file: &File, range: Range<usize>) {
        const PIECE: usize = 128 << 10;
        for start in range.clone().step_by(PIECE) {
            // A hint: where it is refused, so are the others, and the pages are read on demand.
            if advise(file, start..range.end.min(start + PIECE), libc::POSIX_FADV_WILLNEED).is_err() {
                return;
            }
        }
    }

    /// A hint on a range of a file; an empty one reaches to its end.
    #[allow(unsafe_code)]
    fn advise(file: &File, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        let [offset, len] = [range.start, range.len()].map(libc::off_t::try_from);
        let (Ok(offset), Ok(len)) = (offset, len) else { return Err(io::ErrorKind::FileTooLarge.into()) };
        // SAFETY: takes a valid descriptor and numbers, and touches no memory.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, advice) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::path::Path;

    pub(super) fn evict(_: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn resident(_: &Path) -> io::Result<f64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
