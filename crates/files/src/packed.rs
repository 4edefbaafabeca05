//! Files that are kept compressed with zstd: `zstd -19 FILE` makes one, `zstdcat` prints it. A second one that is
//! appended to it is read after it.

use crate::ordinary::{read, read_all};
use ruzstd::decoding::StreamingDecoder;
use std::io;
use std::path::Path;

/// How a frame of zstd begins (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of a regular file, compressed with zstd or not, of at most 256 MiB.
///
/// # Errors
/// As [`read`] and [`unpacked`].
pub fn read_unpacked(path: &Path) -> io::Result<Vec<u8>> {
    unpacked(read(path)?)
}

/// The content of a file's bytes, which are returned as they are unless they begin as zstd's do.
///
/// # Errors
/// They are damaged or cut short, or their content has more than 256 MiB ([`io::ErrorKind::FileTooLarge`]).
pub fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&ZSTD) {
        return Ok(bytes);
    }
    read_all(Frames { rest: &bytes, frame: None }, 0)
}

/// Frames of zstd, one after another.
struct Frames<'a> {
    rest: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>>,
}

impl io::Read for Frames<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let frame = match &mut self.frame {
                Some(frame) => frame,
                None if self.rest.is_empty() || into.is_empty() => return Ok(0),
                None => self.frame.insert(StreamingDecoder::new(self.rest).map_err(io::Error::other)?),
            };
            match frame.read(into)? {
                0 => {
                    self.rest = frame.get_ref();
                    self.frame = None;
                }
                some => return Ok(some),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn packed(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn consecutive_frames_are_all_unpacked() {
        let lines = "a goose\n".repeat(40_000);
        let two = [packed(lines.as_bytes()), packed(b""), packed(b"an egg\n")].concat();
        assert!(two.len() < 1000);
        assert_eq!(unpacked(two).unwrap(), format!("{lines}an egg\n").into_bytes());
        assert_eq!(unpacked(b"a goose\n".to_vec()).unwrap(), b"a goose\n");
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let whole = packed("a goose\n".repeat(400).as_bytes());
        for cut in [4, 5, whole.len() / 2, whole.len() - 1] {
            assert!(unpacked(whole[..cut].to_vec()).is_err(), "{cut}");
        }
        assert!(unpacked([&whole[..], b"a goose"].concat()).is_err());
    }

    /// Bytes of a stranger, which say little of how much they become.
    #[test]
    fn content_that_is_too_large_for_the_memory_is_refused() {
        // 128 KiB of zeros in four bytes, three thousand times.
        let header = [&ZSTD[..], &[0b0000_0000, 0b0101_0000]].concat();
        let block = |is_last: u32| ((128 << 10) << 3 | 1 << 1 | is_last).to_le_bytes()[..3].to_vec();
        let blocks = (0..3000).flat_map(|i| [block(u32::from(i == 2999)), vec![0]].concat());
        let bytes: Vec<u8> = header.into_iter().chain(blocks).collect();
        assert_eq!(unpacked(bytes).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
