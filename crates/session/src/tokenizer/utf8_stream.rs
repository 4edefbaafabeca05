//! Tokens end anywhere, characters do not: turns a stream of bytes into text at character boundaries.

/// Collects token bytes and releases text, never a part of a character.
///
/// An incomplete character at the end is held back until its next bytes arrive or [`Utf8Stream::finish`] is called;
/// bytes that can no longer become a character are released as U+FFFD at once. However the bytes are cut, the pieces
/// together equal `String::from_utf8_lossy` of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Utf8Stream {
    /// The start of a character, at most three bytes between calls.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// A stream that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; gives the text that is certain by now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let certain = self.held.len() - incomplete_tail(&self.held);
        let text = String::from_utf8_lossy(&self.held[..certain]).into_owned();
        self.held.drain(..certain);
        text
    }

    /// Ends the text: a character held back becomes one U+FFFD. The stream is as new afterwards.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// Length of the beginning of a character at the end of `bytes` that further bytes could complete.
fn incomplete_tail(bytes: &[u8]) -> usize {
    // A character has up to four bytes, so an incomplete one has up to three; its first is no continuation byte.
    let window = &bytes[bytes.len().saturating_sub(3)..];
    let Some(start) = window.iter().rposition(|byte| byte & 0xc0 != 0x80) else { return 0 };
    match std::str::from_utf8(&window[start..]) {
        Err(error) if error.error_len().is_none() => window.len() - start,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_held_back_until_certain() {
        let mut stream = Utf8Stream::new();
        assert_eq!(stream.push(b"a\xe2"), "a");
        assert_eq!(stream.push(b"\x82"), "");
        assert_eq!(stream.push(b"\xac!"), "\u{20ac}!");
        assert_eq!(stream.push(b"\xf0\x9f"), "");
        assert_eq!(stream.push(b"("), "\u{fffd}(");
        assert_eq!(stream.push(b"\xff"), "\u{fffd}");
        // A surrogate's second byte already rules it out: nothing to wait for.
        assert_eq!(stream.push(b"\xed\xa0"), "\u{fffd}\u{fffd}");
        assert_eq!(stream.push(b"\xe4\xb8"), "");
        assert_eq!(stream.finish(), "\u{fffd}");
        assert_eq!(stream, Utf8Stream::new());
    }

    /// Pieces of characters, so that valid, broken and cut-off sequences all occur.
    fn fragments() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4),
            prop::collection::vec(prop_oneof![0x80u8..=0xbf, 0xe0u8..=0xf5], 0..4),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            any::<char>().prop_map(|c| c.to_string().into_bytes()[..1].to_vec()),
        ];
        prop::collection::vec(piece, 0..24)
    }

    proptest! {
        #[test]
        fn the_cut_of_a_text_changes_no_character(pieces in fragments()) {
            let mut stream = Utf8Stream::new();
            let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
            text.push_str(&stream.finish());
            let whole = pieces.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }

        #[test]
        fn valid_text_is_never_late(text in any::<String>()) {
            let mut stream = Utf8Stream::new();
            for c in text.chars() {
                let bytes = c.to_string().into_bytes();
                let (head, last) = bytes.split_at(bytes.len() - 1);
                prop_assert_eq!(stream.push(head), "");
                prop_assert_eq!(stream.push(last), c.to_string());
            }
        }
    }
}
