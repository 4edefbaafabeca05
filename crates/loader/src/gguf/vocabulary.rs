//! The tokens of a GGUF file as bytes.
//!
//! llama.cpp's converter writes a token as Python prints it: `repr(bytes)` without the quotes. Entry 0 is `<s>`, the
//! end-of-text marker, which no text contains; entries past the real vocabulary are `[PADn]`. Both become empty. Entry
//! 0 of 256 bytes is the byte 0.

use super::cursor::Cursor;
use crate::contents::Strings;

/// Decodes all tokens. Lengths were checked when the file was opened; should the file have changed since, the tokens
/// behind the change come out empty.
pub(crate) fn decode(file: &[u8], strings: Strings) -> Vec<Vec<u8>> {
    let mut cursor = Cursor::new(file, strings.offset);
    let token = |id| match cursor.string("token") {
        Ok(text) if id == 0 && strings.count == 256 && text == br"\x00" => vec![0],
        Ok(text) if id == 0 || text == format!("[PAD{id}]").as_bytes() => Vec::new(),
        Ok(text) => unescape(text),
        Err(_) => Vec::new(),
    };
    (0..strings.count).map(token).collect()
}

/// Undoes Python's escapes. What is no escape stands for itself.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let (byte, length) = match (first, tail) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [quoted @ (b'\\' | b'\'' | b'"'), ..]) => (*quoted, 2),
            (b'\\', [b'x', high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => (first, 1),
            },
            _ => (first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_escapes() {
        for (text, bytes) in [
            (r"abc", b"abc".as_slice()),
            (r"\n\t\r", b"\n\t\r"),
            (r"\xe4\xBD", b"\xe4\xbd"),
            (r"it\'s", b"it's"),
            (r"\\n", b"\\n"),
            (r"\x4", b"\\x4"),
            (r"\q\", b"\\q\\"),
        ] {
            assert_eq!(unescape(text.as_bytes()), bytes, "{text}");
        }
    }

    #[test]
    fn tokens_of_no_text_are_empty() {
        let mut file = Vec::new();
        for text in ["<s>", "[PAD3]", r"\x00", "[PAD3]"] {
            file.extend((text.len() as u64).to_le_bytes());
            file.extend(text.as_bytes());
        }
        let tokens = decode(&file, Strings { offset: 0, count: 4 });
        assert_eq!(tokens, [b"".as_slice(), b"[PAD3]", b"\0", b""]);
    }
}
