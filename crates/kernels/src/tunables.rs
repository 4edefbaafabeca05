//! Tunables: the literals of a kernel that may be chosen, each declared once, in the WGSL, with its choices.
//!
//! `const ROWS: u32 = 2u; // tune: 1 2 4` declares `ROWS` with default `2`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

/// Chosen values by name; as text, without WGSL's suffixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tunables(pub BTreeMap<String, String>);

impl Tunables {
    /// The value of a numeric tunable.
    ///
    /// # Panics
    /// If the kernel declares no such tunable or it is no number: a bug in the variant, found by the catalogue's tests.
    pub fn number(&self, name: &str) -> u32 {
        self[name].parse().unwrap_or_else(|_| panic!("tunable {name} = {} is no number", &self[name]))
    }
}

impl Index<&str> for Tunables {
    type Output = str;

    fn index(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("the kernel declares no tunable {name}"))
    }
}

impl fmt::Display for Tunables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// One declaration: a `const` or `alias` line with a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declaration<'a> {
    /// Everything before the literal.
    pub(crate) head: &'a str,
    /// The literal, suffix included.
    pub(crate) literal: &'a str,
    /// Name declared.
    pub(crate) name: &'a str,
    /// Who sets it.
    pub(crate) setter: Setter<'a>,
}

/// Who sets a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setter<'a> {
    /// The plan, among these choices.
    Plan(Vec<&'a str>),
    /// The op: the attribute of that name.
    Op(&'a str),
}

/// Reads a line of WGSL as a declaration, if it is marked as one.
pub(crate) fn declaration(line: &str) -> Option<Declaration<'_>> {
    let (code, comment) = line.split_once("//")?;
    let comment = comment.trim();
    let setter = if let Some(choices) = comment.strip_prefix("tune:") {
        Setter::Plan(choices.split_whitespace().collect())
    } else {
        Setter::Op(comment.strip_prefix("op:")?.trim())
    };
    let (head, rest) = code.split_once('=')?;
    let (literal, _) = rest.split_once(';')?;
    let name = head.trim().strip_prefix("const ").or_else(|| head.trim().strip_prefix("alias "))?;
    let name = name.split(':').next()?.trim();
    Some(Declaration { head, literal: literal.trim(), name, setter })
}

impl Declaration<'_> {
    /// The default, without its suffix.
    pub(crate) fn default_value(&self) -> &str {
        if self.head.contains(": u32") { self.literal.trim_end_matches('u') } else { self.literal }
    }

    /// The line with another value; `value` is without suffix.
    pub(crate) fn with(&self, value: &str) -> String {
        let suffix = if self.head.contains(": u32") && value.bytes().all(|b| b.is_ascii_digit()) { "u" } else { "" };
        format!("{}= {value}{suffix};", self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_swapped() {
        let d = declaration("const ROWS: u32 = 2u;   // tune: 1 2 4").unwrap();
        assert_eq!((d.name, d.default_value()), ("ROWS", "2"));
        assert_eq!(d.setter, Setter::Plan(vec!["1", "2", "4"]));
        assert_eq!(d.with("4"), "const ROWS: u32 = 4u;");
        let d = declaration("alias T = f32; // tune: f32 f16").unwrap();
        assert_eq!(d.with("f16"), "alias T = f16;");
        let d = declaration("const N: u32 = 64u; // op: head_size").unwrap();
        assert_eq!((d.setter.clone(), d.with("128u")), (Setter::Op("head_size"), "const N: u32 = 128u;".into()));
        assert_eq!(declaration("const N: u32 = 64u; // a comment"), None);
    }
}
