//! Prose in a terminal: lines are broken between words.

/// The columns by which what goes on is set in below its beginning.
const INDENT: usize = 2;

/// A line in as many as it takes, each of so many columns at most unless a word is longer.
pub(crate) fn wrapped(line: &str, columns: usize) -> String {
    let text = line.trim_start();
    let indent = line.chars().count() - text.chars().count();
    let (mut wrapped, mut at) = (" ".repeat(indent), indent);
    for (i, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if i > 0 && at + 1 + length > columns {
            at = indent + INDENT;
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(at));
        } else if i > 0 {
            wrapped.push(' ');
            at += 1;
        }
        wrapped.push_str(word);
        at += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn words_are_not_broken() {
        assert_eq!(wrapped("   a goose flies", 11), "   a goose\n     flies");
        assert_eq!(wrapped("   a goose flies", 16), "   a goose flies");
        assert_eq!(wrapped("über die Gänse", 8), "über die\n  Gänse");
        assert_eq!(wrapped("gooseflies over", 4), "gooseflies\n  over");
        assert_eq!(wrapped("two  blanks", usize::MAX), "two  blanks");
        assert_eq!(wrapped("", 80), "");
    }
}
