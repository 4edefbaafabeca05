//! Reads numbers and strings one after the other; never past the end.

use super::GgufError;

/// A position in the file's bytes.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at byte `at`.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Cursor { bytes, at: at.min(bytes.len()) }
    }

    /// Where the next byte stands in the file.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Bytes up to the end of the file.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, what: &'static str, len: u64) -> Result<&'a [u8], GgufError> {
        let n = usize::try_from(len).ok().filter(|&n| n <= self.left()).ok_or(GgufError::Truncated {
            what,
            offset: self.at,
            needed: len,
            end: self.bytes.len(),
        })?;
        let taken = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N as u64)?);
        Ok(array)
    }

    /// The next 32-bit number.
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// The next 64-bit number.
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// How many things of at least `size` bytes follow; refuses more than the file can hold.
    pub(super) fn count(&mut self, what: &'static str, size: usize) -> Result<u64, GgufError> {
        let count = self.u64(what)?;
        self.expect(what, count, size)?;
        Ok(count)
    }

    /// Refuses `count` things of at least `size` bytes where fewer bytes are left.
    pub(super) fn expect(&self, what: &'static str, count: u64, size: usize) -> Result<(), GgufError> {
        if count > (self.left() / size) as u64 {
            return Err(GgufError::Count { what, count, offset: self.at, left: self.left() });
        }
        Ok(())
    }

    /// The next string: its length in 64 bits, then its bytes.
    pub(super) fn string(&mut self, what: &'static str) -> Result<&'a [u8], GgufError> {
        let len = self.u64(what)?;
        self.take(what, len)
    }

    /// The next string, which must be UTF-8.
    pub(super) fn name(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let offset = self.at;
        std::str::from_utf8(self.string(what)?).map_err(|_| GgufError::Name { what, offset })
    }
}
