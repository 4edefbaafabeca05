//! Reading a file by position: every read names its place, so that many threads share one handle.

use std::fmt::Debug;
use std::fs::File;
use std::io;

/// Bytes that can be read from any place by any thread.
pub trait ReadAt: Send + Sync + Debug {
    /// Fills `out` with the bytes from byte `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the bytes end before `out` is full, or what the system said. What `out`
    /// then holds is not said.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

#[cfg(unix)]
impl ReadAt for File {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, out, offset)
    }
}

#[cfg(windows)]
impl ReadAt for File {
    fn read_exact_at(&self, mut out: &mut [u8], mut offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        while !out.is_empty() {
            match self.seek_read(out, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    out = &mut out[n..];
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
