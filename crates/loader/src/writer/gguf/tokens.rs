//! The vocabulary as llama.cpp's files spell it.

use crate::writer::{Outline, WriteError};

/// Kinds of token, as ggml counts them.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// The text and kind of each token, one per row of the embedding; `None` where the vocabulary is not known.
pub(super) fn tokens(outline: &Outline<'_>) -> Result<Option<Vec<(String, i32)>>, WriteError> {
    let rows = outline.shape.vocab;
    let Some(given) = outline.vocabulary else { return Ok(None) };
    if given.len() > rows as usize {
        return Err(WriteError::Vocabulary { tokens: given.len(), rows });
    }
    // Of 256 bytes, 0 is one too.
    let is_bytes = rows == 256 && given.first().is_some_and(|first| first == &[0]);
    let token = |id: u32| match id {
        0 if !is_bytes => ("<s>".to_owned(), CONTROL),
        _ => match given.get(id as usize) {
            Some(bytes) if !bytes.is_empty() => (python_repr(bytes), NORMAL),
            _ => (format!("[PAD{id}]"), UNUSED),
        },
    };
    Ok(Some((0..rows).map(token).collect()))
}

/// What Python's `repr` prints for the bytes, without `b` and quotes.
fn python_repr(bytes: &[u8]) -> String {
    // Python quotes with `"` where that spares an escape.
    let escape_quote = bytes.contains(&b'"');
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\n' => text.push_str(r"\n"),
            b'\r' => text.push_str(r"\r"),
            b'\t' => text.push_str(r"\t"),
            b'\\' => text.push_str(r"\\"),
            b'\'' if escape_quote => text.push_str(r"\'"),
            b' '..=b'~' => text.push(*byte as char),
            _ => text.push_str(&format!(r"\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::python_repr;

    #[test]
    fn tokens_are_written_as_python_prints_them() {
        // The right-hand sides are what CPython prints.
        for (bytes, text) in [
            (b"a b".as_slice(), "a b"),
            (b"\n\r\t\\", r"\n\r\t\\"),
            (b"it's", "it's"),
            (b"'\"", r#"\'""#),
            (b"\"", "\""),
            (b"\x00\x7f\xe4\xbd", r"\x00\x7f\xe4\xbd"),
        ] {
            assert_eq!(python_repr(bytes), text);
        }
    }
}
