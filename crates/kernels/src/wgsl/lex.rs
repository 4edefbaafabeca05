//! WGSL as tokens, as far as renaming and reachability need it, and its module-scope items.

/// A token of WGSL text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// Anything else but blanks: a number, an operator, a bracket.
    Other(&'a str),
    /// Blanks, or a comment, which reads as one.
    Blank(&'a str),
}

impl<'a> Token<'a> {
    /// What it reads as.
    pub(crate) fn text(&self) -> &'a str {
        match *self {
            Token::Name(text) | Token::Other(text) | Token::Blank(text) => text,
        }
    }

    /// Whether it is that operator or bracket.
    pub(crate) fn is(&self, other: &str) -> bool {
        *self == Token::Other(other)
    }
}

/// Whether a character may be in a name.
pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits a text into tokens. Comments are dropped, operators come one character at a time.
pub(crate) fn tokens<'a>(text: &'a str) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
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
                let belongs = is_name(c) || c == '.' || ((c == '+' || c == '-') && exponent.contains(&before));
                before = c;
                !belongs
            };
            (rest.find(ends).unwrap_or(rest.len()), Token::Other)
        } else if is_name(first) {
            (rest.find(|c| !is_name(c)).unwrap_or(rest.len()), Token::Name)
        } else {
            (first.len_utf8(), Token::Other)
        };
        found.push(make(&rest[..length]));
        rest = &rest[length..];
    }
    found
}

/// A line without its comment, and without the blanks before that.
pub(crate) fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim_end()
}

/// The module-scope items of a text, each to its `;` or its closing brace.
pub(crate) fn items<'a>(tokens: &[Token<'a>]) -> Vec<Vec<Token<'a>>> {
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

/// The index behind an item's attributes.
pub(crate) fn behind_attributes(item: &[Token<'_>]) -> usize {
    let mut at = 0;
    while item.get(at).is_some_and(|t| t.is("@")) {
        at += 2;
        let blank = |t: Option<&Token<'_>>| matches!(t, Some(Token::Blank(_)));
        if item.get(at).is_some_and(|t| t.is("(")) {
            at += item[at..].iter().position(|t| t.is(")")).map_or(1, |p| p + 1);
        }
        while blank(item.get(at)) {
            at += 1;
        }
    }
    at
}

/// The name that a module-scope item declares.
pub(crate) fn declared<'a>(item: &[Token<'a>]) -> Option<&'a str> {
    declaration(item).map(|(_, name)| name)
}

/// The keyword and the name of a module-scope item that declares one.
pub(crate) fn declaration<'a>(item: &[Token<'a>]) -> Option<(&'a str, &'a str)> {
    let rest = item.get(behind_attributes(item)..)?;
    let Token::Name(keyword @ ("fn" | "const" | "override" | "struct" | "alias" | "var")) = *rest.first()? else {
        return None;
    };
    let mut rest = &rest[1..];
    if rest.first().is_some_and(|t| t.is("<")) {
        rest = &rest[rest.iter().position(|t| t.is(">"))? + 1..];
    }
    rest.iter().find_map(|t| match t {
        Token::Name(name) => Some((keyword, *name)),
        _ => None,
    })
}

/// Whether an item is a variable with attributes: a binding.
pub(crate) fn is_binding(item: &[Token<'_>]) -> bool {
    item.first().is_some_and(|t| t.is("@")) && item.get(behind_attributes(item)) == Some(&Token::Name("var"))
}

/// Whether an item is an entry point.
pub(crate) fn is_entry_point(item: &[Token<'_>]) -> bool {
    item.get(1) == Some(&Token::Name("compute"))
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
        assert_eq!((declared(&items[0]), declared(&items[1])), (Some("A"), Some("f")));
    }

    #[test]
    fn bindings_and_entry_points_are_told_by_their_attributes() {
        let all = tokens(
            "@group(0) @binding(1) var<storage, read> x: array<f32>;\n@compute @workgroup_size(64)\nfn main() {}",
        );
        let items = items(&all);
        assert!(is_binding(&items[0]) && declared(&items[0]) == Some("x"));
        assert!(is_entry_point(&items[1]) && declared(&items[1]) == Some("main"));
        assert_eq!(declared(&tokens("@")), None);
    }
}
