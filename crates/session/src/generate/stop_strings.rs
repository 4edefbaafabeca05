//! Strings at which a text ends: what may be the beginning of one is held back.

/// Looks for stop strings in bytes that come in pieces. However they are cut, the first string to be complete ends the
/// text; of several complete at once, the longest.
#[derive(Debug, Clone)]
pub(crate) struct StopStrings {
    strings: Vec<Vec<u8>>,
    /// Bytes that are the beginning of a string.
    held: Vec<u8>,
}

impl StopStrings {
    /// Empty strings are never found.
    pub(crate) fn new(strings: &[String]) -> Self {
        StopStrings { strings: strings.iter().map(|s| s.clone().into_bytes()).collect(), held: Vec::new() }
    }

    /// Takes the next bytes; gives those that are no part of a stop string, and the index of the one that was found.
    /// Nothing more is to be pushed then.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<usize>) {
        let before = self.held.len();
        self.held.extend_from_slice(bytes);
        for end in before + 1..=self.held.len() {
            let text = &self.held[..end];
            let complete = |(_, string): &(usize, &Vec<u8>)| !string.is_empty() && text.ends_with(string);
            let found = self.strings.iter().enumerate().filter(complete).max_by_key(|(_, string)| string.len());
            if let Some((index, string)) = found {
                self.held.truncate(end - string.len());
                return (self.finish(), Some(index));
            }
        }
        let longest = self.strings.iter().map(|string| beginning_at_end(&self.held, string)).max().unwrap_or(0);
        let kept = self.held.split_off(self.held.len() - longest);
        (std::mem::replace(&mut self.held, kept), None)
    }

    /// What was held back, as no more bytes come.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Length of the longest beginning of `string`, but for all of it, that `text` ends with.
fn beginning_at_end(text: &[u8], string: &[u8]) -> usize {
    let most = text.len().min(string.len().saturating_sub(1));
    (0..=most).rev().find(|&len| text.ends_with(&string[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings(strings: &[&str]) -> StopStrings {
        StopStrings::new(&strings.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_possible_beginning_of_a_stop_string_is_held_back() {
        let mut stops = strings(&["\n\nUser:", "END"]);
        assert_eq!(stops.push(b"a\n"), (b"a".to_vec(), None));
        assert_eq!(stops.push(b"b\n\nUs"), (b"\nb".to_vec(), None));
        assert_eq!(stops.push(b"\n"), (b"\n\nUs".to_vec(), None));
        assert_eq!(stops.push(b"\nUser: hi"), (vec![], Some(0)));
        assert_eq!(strings(&["", "abc", "b"]).push(b"abc"), (b"a".to_vec(), Some(2)), "complete first");
        assert_eq!(strings(&["b", "ab"]).push(b"xab"), (b"x".to_vec(), Some(1)), "the longest");
    }

    /// The definition: byte by byte, is a string complete?
    fn definition(text: &[u8], strings: &[Vec<u8>]) -> (Vec<u8>, bool) {
        for end in 1..=text.len() {
            let complete = strings.iter().filter(|s| !s.is_empty() && text[..end].ends_with(s));
            if let Some(longest) = complete.map(Vec::len).max() {
                return (text[..end - longest].to_vec(), true);
            }
        }
        (text.to_vec(), false)
    }

    proptest! {
        #[test]
        fn the_cut_of_a_text_changes_no_byte(
            pieces in prop::collection::vec("[ab]{0,4}", 0..12),
            stops in prop::collection::vec("[ab]{0,4}", 0..4),
        ) {
            let mut filter = StopStrings::new(&stops);
            let raw: Vec<Vec<u8>> = stops.iter().map(|s| s.clone().into_bytes()).collect();
            let (mut text, mut found, mut taken) = (Vec::new(), false, Vec::new());
            for piece in &pieces {
                let (given, stop) = filter.push(piece.as_bytes());
                text.extend(given);
                taken.extend_from_slice(piece.as_bytes());
                found = stop.is_some();
                // Nothing is given that could be a part of a stop string, and nothing else is held back.
                let held = &taken[text.len()..];
                prop_assert!(found || held.is_empty() || raw.iter().any(|s| s.len() > held.len() && s.starts_with(held)));
                if found {
                    break;
                }
            }
            text.extend(filter.finish());
            prop_assert_eq!((text, found), definition(pieces.concat().as_bytes(), &raw));
        }
    }
}
