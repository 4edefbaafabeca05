//! Texts in files and streams. A text in UTF-16, as PowerShell's `>` writes it, is known by its byte order mark and
//! becomes UTF-8; all other bytes are a text as they are.

use crate::ordinary::{open, read, read_all};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

/// How UTF-16 reads the two bytes of a unit.
type Order = fn([u8; 2]) -> u16;

/// The marks at the beginning of UTF-16, and its order.
const MARKS: [([u8; 2], Order); 2] = [([0xff, 0xfe], u16::from_le_bytes), ([0xfe, 0xff], u16::from_be_bytes)];

/// A text as it is read, and its bytes.
pub enum Text {
    /// Of a file, as it is.
    File {
        /// The file.
        file: File,
        /// Its bytes when it was opened.
        len: u64,
    },
    /// In memory.
    Decoded(Cursor<Vec<u8>>),
}

impl Text {
    /// Bytes of the text.
    pub fn byte_len(&self) -> u64 {
        match self {
            Text::File { len, .. } => *len,
            Text::Decoded(bytes) => bytes.get_ref().len() as u64,
        }
    }
}

impl Read for Text {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Text::File { file, .. } => file.read(out),
            Text::Decoded(bytes) => bytes.read(out),
        }
    }
}

/// Opens a text that may be larger than memory; one in UTF-16 is read as a whole.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::InvalidData`] where it begins as UTF-16 and is none.
pub fn open_text(path: &Path) -> io::Result<Text> {
    let mut file = open(path)?;
    let len = file.metadata()?.len();
    let mut start = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut start)?;
    file.rewind()?;
    match MARKS.iter().any(|(mark, _)| start == mark) {
        true => Ok(Text::Decoded(Cursor::new(as_utf8(read_all(file, len as usize)?)?))),
        false => Ok(Text::File { file, len }),
    }
}

/// The bytes of a text, of at most 256 MiB.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] where it begins as UTF-16 and is none.
pub fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    as_utf8(read(path)?)
}

/// The bytes of a text: UTF-8 for UTF-16 with its mark, all others as they are.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] where they begin as UTF-16 and are none.
pub fn as_utf8(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let Some((_, decode)) = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)) else { return Ok(bytes) };
    let (units, rest) = bytes[2..].as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(units.iter().map(|unit| decode(*unit))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(text.into_bytes()),
        _ => {
            let why = "it begins with the mark of UTF-16 and is none: save it as UTF-8";
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_of_either_order_is_known_by_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        let text = "Goose, 鵝, 🪿\r\n";
        for (mark, to_bytes) in [(0xfeff_u16, u16::to_le_bytes as fn(u16) -> [u8; 2]), (0xfeff, u16::to_be_bytes)] {
            let bytes: Vec<u8> = std::iter::once(mark).chain(text.encode_utf16()).flat_map(to_bytes).collect();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read_text(&path).unwrap(), text.as_bytes());
            let mut opened = open_text(&path).unwrap();
            assert_eq!(opened.byte_len(), text.len() as u64);
            let mut found = Vec::new();
            opened.read_to_end(&mut found).unwrap();
            assert_eq!(found, text.as_bytes());

            // Without its last byte, and, before the end of the line, without half of a pair.
            for cut in [1, 6] {
                std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
                let errors = [read_text(&path).err(), open_text(&path).err()];
                assert!(errors.iter().flatten().all(|e| e.kind() == io::ErrorKind::InvalidData));
                assert!(errors.iter().all(Option::is_some), "{cut}");
            }
        }
    }

    #[test]
    fn bytes_without_a_utf16_mark_are_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        for bytes in [b"".as_slice(), b"\xff", b"\xff\xfd\x00", b"\xef\xbb\xbfa", b"goose\n"] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read_text(&path).unwrap(), bytes);
            let mut found = Vec::new();
            open_text(&path).unwrap().read_to_end(&mut found).unwrap();
            assert_eq!(found, bytes);
        }
    }
}
