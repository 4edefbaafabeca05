//! `// requires: const K, WG, fn load_weights`: names that a file takes from whoever imports it. A name without a kind
//! has the kind before it.

use super::lex::is_name;

/// What a name may be required as, and the keywords that declare it.
const KINDS: [(&str, &[&str]); 4] =
    [("const", &["const", "override"]), ("fn", &["fn"]), ("var", &["var"]), ("type", &["struct", "alias"])];

/// A name that is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Required {
    pub(crate) line: usize,
    /// One of [`KINDS`].
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

impl Required {
    /// Whether a declaration by this keyword is of its kind.
    pub(crate) fn is_met_by(&self, keyword: &str) -> bool {
        KINDS.iter().any(|(kind, keywords)| *kind == self.kind && keywords.contains(&keyword))
    }
}

/// Reads the names behind `// requires:`.
///
/// # Errors
/// A kind that there is not, or what is no name.
pub(super) fn required(line: usize, value: &str) -> Result<Vec<Required>, String> {
    let mut kind = None;
    let mut found = Vec::new();
    for entry in value.split(',') {
        let words: Vec<&str> = entry.split_whitespace().collect();
        let name = match words[..] {
            [name] => name,
            [word, name] => {
                let known = KINDS.iter().find(|(kind, _)| *kind == word);
                kind = Some(known.ok_or_else(|| format!("nothing is required as '{word}': {}", kinds()))?.0);
                name
            }
            _ => return Err(format!("cannot read '{}': '// requires: const NAME, fn NAME, ..'", entry.trim())),
        };
        let kind = kind.ok_or_else(|| format!("'{name}' has no kind: {}", kinds()))?;
        if !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) || is_kind(name) {
            return Err(format!("'{name}' is no name"));
        }
        found.push(Required { line, kind, name: name.to_owned() });
    }
    Ok(found)
}

fn is_kind(word: &str) -> bool {
    KINDS.iter().any(|(kind, _)| *kind == word)
}

fn kinds() -> String {
    KINDS.map(|(kind, _)| kind).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_their_kinds() {
        let names = |value| {
            required(7, value).map(|all| all.iter().map(|r| format!("{} {}", r.kind, r.name)).collect::<Vec<_>>())
        };
        let want = ["const K", "const WG", "fn load_weights", "var scratch", "type AdapterRows"];
        assert_eq!(names("const K, WG, fn load_weights, var scratch, type AdapterRows").unwrap(), want);
        for (value, why) in [
            ("K, fn f", "'K' has no kind"),
            ("constant K", "as 'constant': const, fn, var, type"),
            ("fn f, fun g", "as 'fun'"),
            ("const K,", "cannot read ''"),
            ("const K 1", "cannot read 'const K 1'"),
            ("const fn", "'fn' is no name"),
            ("const 2K", "'2K' is no name"),
            ("fn f()", "'f()' is no name"),
        ] {
            assert!(names(value).unwrap_err().contains(why), "{value}: {:?}", names(value));
        }
    }
}
