//! Text in cells: of Markdown tables, and of comma-separated values.

use wgoose_session::printable;

/// Text as it stands in a cell of a table, or in a heading: no markup, no end of the line.
pub(crate) fn cell(text: &str) -> String {
    let text = printable(&text.replace(['\n', '\r'], " "));
    let mut cell = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => cell.push_str("&lt;"),
            '&' => cell.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '~' => cell.extend(['\\', c]),
            c => cell.push(c),
        }
    }
    cell
}

/// Text as it stands between commas (RFC 4180).
pub(crate) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(cell("plain - (1.5B) x2, 3 %"), "plain - (1.5B) x2, 3 %");
        assert_eq!(cell("a|b\n# c"), "a\\|b \\# c");
        assert_eq!(cell("[x](y) <b> *z* \u{1b}"), "\\[x\\](y) &lt;b> \\*z\\* \\\\u{1b}");
    }

    #[test]
    fn values_with_commas_are_quoted() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("NVIDIA H200, \"570\""), "\"NVIDIA H200, \"\"570\"\"\"");
    }
}
