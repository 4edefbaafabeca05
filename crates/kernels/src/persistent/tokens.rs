//! WGSL as tokens, as far as renaming needs it: comments go, blanks stay.

/// A piece of WGSL text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// Anything else but blanks: a number, an operator, a bracket.
    Other(&'a str),
    /// Blanks, or a comment, which reads as one.
    Blank(&'a str),
}

impl<'a> Token<'a> {
    /// What it reads as.
    pub(super) fn text(&self) -> &'a str {
        match *self {
            Token::Name(text) | Token::Other(text) | Token::Blank(text) => text,
        }
    }

    /// Whether it is that operator or bracket.
    pub(super) fn is(&self, other: &str) -> bool {
        *self == Token::Other(other)
    }
}

/// Cuts a text up. Operators come one character at a time.
pub(super) fn tokens<'a>(text: &'a str) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let (length, make): (usize, fn(&'a str) -> Token<'a>) = if first.is_whitespace() {
            (rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()), Token::Blank)
        } else if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            rest = &rest[length..];
            continue;
        } else if first.is_ascii_digit() {
            // A sign belongs to an exponent: e of decimal numbers, p of hexadecimal ones.
            let exponent = if rest.starts_with("0x") { ['p', 'P'] } else { ['e', 'E'] };
            let mut before = first;
            let ends = |c: char| {
                let belongs = part_of_name(c) || c == '.' || ((c == '+' || c == '-') && exponent.contains(&before));
                before = c;
                !belongs
            };
            (rest.find(ends).unwrap_or(rest.len()), Token::Other)
        } else if part_of_name(first) {
            (rest.find(|c| !part_of_name(c)).unwrap_or(rest.len()), Token::Name)
        } else {
            (first.len_utf8(), Token::Other)
        };
        found.push(make(&rest[..length]));
        rest = &rest[length..];
    }
    found
}

/// The module-scope items of a text, each to its `;` or its closing brace.
pub(super) fn items<'a>(tokens: &[Token<'a>]) -> Vec<Vec<Token<'a>>> {
    let mut items = Vec::new();
    let mut item: Vec<Token<'a>> = Vec::new();
    let mut depth = 0usize;
    for token in tokens {
        if item.is_empty() && (matches!(token, Token::Blank(_)) || token.is(";")) {
            continue;
        }
        item.push(*token);
        match token.text() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (token.is(";") || token.is("}")) {
            items.push(std::mem::take(&mut item));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_tokens_without_comments() {
        let text = "const A: f32 = 0x1p-24; // one\nfn f(a: u32) -> f32 { return x[a+1u].y * 1e-12f - .5; }";
        let all = tokens(text);
        let joined: String = all.iter().map(Token::text).collect();
        assert_eq!(joined, text.replace("// one", ""));
        assert!(all.contains(&Token::Other("0x1p-24")) && all.contains(&Token::Other("1e-12f")));
        assert!(all.contains(&Token::Name("y")) && all.contains(&Token::Other("1u")));
        let items = items(&all);
        assert_eq!(items.len(), 2);
        assert_eq!(items[1][0], Token::Name("fn"));
    }
}
