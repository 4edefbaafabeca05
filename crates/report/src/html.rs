//! Text that cannot be mistaken for markup, and tables.

/// Most characters of a text in a table.
pub(super) const LONG: usize = 400;

/// Most characters of a name.
pub(super) const SHORT: usize = 120;

/// A text of at most so many characters, with no markup and no character that changes how others are shown.
pub(super) fn escape(text: &str, most: usize) -> String {
    let mut escaped = String::with_capacity(text.len().min(4 * most));
    for (i, c) in text.chars().enumerate() {
        if i == most {
            escaped.push('…');
            break;
        }
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            // Control characters, and those that turn the direction of what follows.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}') =>
            {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A table. What stands in it is HTML; columns whose head begins with `#` hold numbers.
pub(super) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    left_out: usize,
}

impl Table {
    pub(super) fn new(heads: &[&'static str]) -> Self {
        Table { heads: heads.to_vec(), rows: Vec::new(), left_out: 0 }
    }

    /// Of things that each make a row, the first `most`.
    pub(super) fn of<T>(heads: &[&'static str], all: &[T], most: usize, row: impl Fn(&T) -> Vec<String>) -> Self {
        let rows = all.iter().take(most).map(row).collect();
        Table { heads: heads.to_vec(), rows, left_out: all.len().saturating_sub(most) }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table, which scrolls by itself where the page is narrow.
    pub(super) fn html(&self, caption: &str) -> String {
        let class = |i: usize| if self.heads[i].starts_with('#') { " class=\"n\"" } else { "" };
        let mut html = format!("<div class=\"scroll\" tabindex=\"0\"><table><caption>{caption}</caption><thead><tr>");
        for (i, head) in self.heads.iter().enumerate() {
            html += &format!("<th scope=\"col\"{}>{}</th>", class(i), head.trim_start_matches('#'));
        }
        html += "</tr></thead><tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            row.iter().enumerate().for_each(|(i, cell)| html += &format!("<td{}>{cell}</td>", class(i)));
            html += "</tr>\n";
        }
        html += "</tbody></table></div>\n";
        if self.left_out > 0 {
            html += &format!("<p class=\"note\">and {} more, which are in the ledger</p>\n", self.left_out);
        }
        html
    }

    /// The table behind a line that opens it.
    pub(super) fn folded(&self, summary: &str) -> String {
        format!("<details><summary>{summary}</summary>\n{}</details>\n", self.html(summary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup_and_has_an_end() {
        assert_eq!(escape("<b a='1'>\"&\"</b>", 99), "&lt;b a=&#39;1&#39;&gt;&quot;&amp;&quot;&lt;/b&gt;");
        assert_eq!(escape("a\0b\u{1b}[31mc\nd\u{202e}e", 99), "a\u{fffd}b\u{fffd}[31mc d\u{fffd}e");
        assert_eq!(escape(&"ß".repeat(1000), 3), "ßßß…");
        assert_eq!(escape("abc", 3), "abc");
    }
}
