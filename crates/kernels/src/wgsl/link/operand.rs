//! How a stage's text loads and stores an operand's elements: in a buffer, or in cells whose values announce themselves.

use super::part::NotAStage;
use crate::wgsl::lex::Token;

/// Where elements are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In a bound buffer, from an offset on.
    Buffer { buffer: String, offset: String },
    /// In cells, from `first` on, one word each or four.
    Cells { first: String, is_vec4: bool },
}

/// The text before an index and the text behind it.
pub(super) type Around = (String, &'static str);

impl Place {
    /// Around the index of an element that is loaded.
    pub(super) fn loaded(&self) -> Around {
        match self {
            Place::Buffer { buffer, offset } => (format!("{buffer}[{offset} + ("), ")]"),
            Place::Cells { first, is_vec4: false } => (format!("announced({first} + ("), "))"),
            Place::Cells { first, is_vec4: true } => (format!("announced_vec4(({first}) / 4u + ("), "))"),
        }
    }

    /// Around the index of an element that is stored. What takes the place of `=` comes with it; a call ends behind the value.
    pub(super) fn stored(&self) -> Around {
        match self {
            Place::Buffer { buffer, offset } => (format!("{buffer}[{offset} + ("), ")] ="),
            Place::Cells { first, is_vec4: false } => (format!("announce({first} + ("), "),"),
            Place::Cells { first, is_vec4: true } => (format!("announce_vec4(({first}) / 4u + ("), "),"),
        }
    }

    pub(super) fn is_cells(&self) -> bool {
        matches!(self, Place::Cells { .. })
    }
}

/// A statement that stores an element.
#[derive(Clone, Copy)]
pub(super) struct Store {
    /// Where its `=` is.
    pub(super) equals: usize,
    /// Where its `;` is.
    pub(super) end: usize,
}

/// What a text does with the element whose index begins with the bracket at `open`: the statement that stores it, or `None` if
/// it is loaded.
///
/// # Errors
/// Something else, such as storing a part of it.
pub(super) fn store_of(item: &[Token<'_>], open: usize) -> Result<Option<Store>, NotAStage> {
    const OTHERWISE: NotAStage =
        NotAStage("an operand that announces itself is used otherwise than element by element");
    let mut depth = 0usize;
    let close = (open..item.len()).find(|i| {
        match item[*i].text() {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let mut behind = (close.ok_or(OTHERWISE)? + 1..item.len()).filter(|i| !matches!(item[*i], Token::Blank(_)));
    let mut next = || behind.next().map_or((0, ""), |i| (i, item[i].text()));
    let ((first, a), (_, b), (_, c)) = (next(), next(), next());
    match (a, b, c) {
        ("=", "=", _) => Ok(None),
        ("=", ..) => {
            let end = (first..item.len()).find(|i| item[*i].is(";")).ok_or(OTHERWISE)?;
            Ok(Some(Store { equals: first, end }))
        }
        (".", _, "=") | ("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", "=", _) => Err(OTHERWISE),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wgsl::lex::tokens;

    #[test]
    fn a_store_is_told_from_a_load() {
        let of = |text: &str| {
            let all = tokens(text);
            let open = all.iter().position(|t| t.is("[")).unwrap();
            store_of(&all, open).map(|store| store.map(|s| all[s.equals].is("=") && s.end + 1 == all.len()))
        };
        assert_eq!(of("y[a[i] + 1u] = x[i] + z[b == c];"), Ok(Some(true)));
        for load in ["let v = y[i];", "if y[i] == 0.0 {}", "let b = y[i].x + y[i].y;", "f(y[i]);", "a = y[i] - 1.0;"] {
            assert_eq!(of(load), Ok(None), "{load}");
        }
        for other in ["y[i] += 1.0;", "y[i].x = 1.0;", "y[i"] {
            assert!(of(other).is_err(), "{other}");
        }
    }
}
