//! Text of files and drivers on its way to a terminal.

/// Most characters of it, so that a name of megabytes leaves room for what is said about it.
const MOST: usize = 2000;

/// Of these, the ones from the end.
const LAST: usize = 500;

/// One line that a terminal shows as it is: control characters, those of Unicode that change the order of others, and what has no
/// width are escaped as in Rust, and of more than 2,000 characters the middle is left out.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * MOST));
    let escape = |shown: &mut String, part: &str| {
        for c in part.chars() {
            if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
        }
    };
    // Bytes are at least as many as characters.
    let count = if text.len() > MOST { text.chars().count() } else { 0 };
    if count <= MOST {
        escape(&mut shown, text);
        return shown;
    }
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    escape(&mut shown, &text[..place(MOST - LAST)]);
    shown.push_str(&format!(" ...({} characters)... ", count - MOST));
    escape(&mut shown, &text[place(count - LAST)..]);
    shown
}

fn is_plain(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_hidden = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}');
    !(c.is_control() || reorders || is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("Gänse 鵝 'x'"), "Gänse 鵝 'x'");
        assert_eq!(printable("\u{1b}[7mX\n\u{7}\u{9b}\u{202e}"), "\\u{1b}[7mX\\n\\u{7}\\u{9b}\\u{202e}");
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let whole = "a".repeat(MOST);
        assert_eq!(printable(&whole), whole);
        let long = format!("begin{}end", "ä".repeat(100_000_000));
        let shown = printable(&long);
        assert!(shown.starts_with("beginä") && shown.ends_with("äend"), "{shown}");
        assert!(shown.contains(" ...(99998008 characters)... ") && shown.chars().count() < MOST + 40, "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_plain_line(text: String) {
            let shown = printable(&text);
            prop_assert!(shown.chars().all(is_plain));
            if text.chars().all(is_plain) && text.chars().count() <= MOST {
                prop_assert_eq!(shown, text);
            }
        }
    }
}
