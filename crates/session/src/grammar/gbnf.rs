//! llama.cpp's notation of grammars (GBNF), rewritten in Lark's.
//!
//! ```text
//! root  ::= item+
//! item  ::= "- " [^\n]{1,40} "\n"     # a comment
//! ```
//!
//! Every class of characters becomes a terminal of one character, so that a text is matched by the grammar alone: no
//! lexer takes the longest match.

use super::error::GrammarError;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The first rule.
const ROOT: &str = "root";

/// Whether a grammar is in this notation: a rule has `::=`.
pub(super) fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        let rule = line.split_once("::=").map(|(name, _)| name.trim());
        rule.is_some_and(|name| !name.is_empty() && name.chars().all(is_name))
    })
}

/// The same grammar in Lark's notation.
///
/// # Errors
/// The line that is malformed, or a rule that is missing.
pub(super) fn to_lark(text: &str) -> Result<String, GrammarError> {
    let mut reader = Reader { rest: text, line: 1, names: BTreeMap::new(), defined: Vec::new(), lark: String::new() };
    reader.blanks(true);
    while !reader.rest.is_empty() {
        reader.rule()?;
        reader.blanks(true);
    }
    match reader.names.iter().find(|(name, _)| !reader.defined.iter().any(|defined| defined == *name)) {
        Some((_, used)) => Err(GrammarError::Gbnf { line: used.line, why: "it refers to a rule that is not defined" }),
        None if !reader.defined.iter().any(|name| name == ROOT) => {
            Err(GrammarError::Gbnf { line: 1, why: "there is no rule named root" })
        }
        None => Ok(reader.lark),
    }
}

/// A rule's number, and the line where it is first named.
#[derive(Clone, Copy)]
struct NamedRule {
    number: usize,
    line: usize,
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    names: BTreeMap<String, NamedRule>,
    defined: Vec<String>,
    lark: String,
}

impl<'a> Reader<'a> {
    fn wrong<T>(&self, why: &'static str) -> Result<T, GrammarError> {
        Err(GrammarError::Gbnf { line: self.line, why })
    }

    /// Skips blanks and comments; line breaks too, if they end nothing.
    fn blanks(&mut self, has_breaks: bool) {
        loop {
            match self.rest.chars().next() {
                Some('\n') if has_breaks => {
                    self.line += 1;
                    self.rest = &self.rest[1..];
                }
                Some(' ' | '\t' | '\r') => self.rest = &self.rest[1..],
                Some('#') => self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]),
                _ => return,
            }
        }
    }

    fn takes(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn name(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(name).filter(|name| !name.is_empty())
    }

    /// The name of a rule in Lark's notation.
    fn reference(&mut self, name: &str) -> String {
        let next = NamedRule { number: self.names.len(), line: self.line };
        let rule = *self.names.entry(name.to_owned()).or_insert(next);
        if name == ROOT { "start".to_owned() } else { format!("rule{}", rule.number) }
    }

    fn rule(&mut self) -> Result<(), GrammarError> {
        let Some(name) = self.name() else { return self.wrong("a rule begins with its name") };
        self.blanks(false);
        if !self.takes("::=") {
            return self.wrong("'::=' comes after the name of a rule");
        }
        if self.defined.iter().any(|defined| defined == name) {
            return self.wrong("a rule of this name is defined before");
        }
        self.defined.push(name.to_owned());
        let reference = self.reference(name);
        let _ = write!(self.lark, "{reference}:");
        self.blanks(true);
        self.alternatives(false)?;
        self.lark.push('\n');
        match self.rest.chars().next() {
            None | Some('\n') => Ok(()),
            Some(_) => self.wrong("there is something that is no part of a rule"),
        }
    }

    fn alternatives(&mut self, is_nested: bool) -> Result<(), GrammarError> {
        self.sequence(is_nested)?;
        while self.takes("|") {
            self.lark.push_str(" |");
            self.blanks(true);
            self.sequence(is_nested)?;
        }
        Ok(())
    }

    fn sequence(&mut self, is_nested: bool) -> Result<(), GrammarError> {
        let before = self.lark.len();
        loop {
            self.blanks(is_nested);
            match self.rest.chars().next() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.next();
                    self.lark.push_str(r" /[\x{0}-\x{10FFFF}]/");
                }
                Some('(') => {
                    self.next();
                    self.lark.push_str(" (");
                    self.blanks(true);
                    self.alternatives(true)?;
                    if !self.takes(")") {
                        return self.wrong("a parenthesis is not closed");
                    }
                    self.lark.push(')');
                }
                Some(c) if is_name(c) => {
                    let name = self.name().unwrap_or_default();
                    let reference = self.reference(name);
                    let _ = write!(self.lark, " {reference}");
                }
                _ => break,
            }
            self.repetition()?;
        }
        if self.lark.len() == before {
            self.lark.push_str(" \"\"");
        }
        Ok(())
    }

    fn repetition(&mut self) -> Result<(), GrammarError> {
        match self.rest.chars().next() {
            Some(mark @ ('*' | '+' | '?')) => {
                self.next();
                self.lark.push(mark);
            }
            Some('{') => {
                let Some(end) = self.rest.find('}') else { return self.wrong("a brace is not closed") };
                let bounds = self.rest[..=end].replace(' ', "");
                if !bounds.chars().all(|c| c.is_ascii_digit() || "{},".contains(c)) {
                    return self.wrong("a number of repetitions is no number");
                }
                self.rest = &self.rest[end + 1..];
                self.lark.push_str(&bounds);
            }
            _ => {}
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<(), GrammarError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.rest.chars().next() {
                None | Some('\n') => return self.wrong("a text is not closed"),
                Some('"') => {
                    self.next();
                    break;
                }
                Some(_) => text.push(self.character()?),
            }
        }
        let _ = write!(self.lark, " {}", serde_json::Value::from(text));
        Ok(())
    }

    /// A class of characters, as a regular expression.
    fn class(&mut self) -> Result<(), GrammarError> {
        self.next();
        let is_negated = self.takes("^");
        self.lark.push_str(if is_negated { " /[^" } else { " /[" });
        let mut is_empty = true;
        while !self.takes("]") {
            if self.rest.is_empty() {
                return self.wrong("a class of characters is not closed");
            }
            let first = self.character()?;
            let _ = write!(self.lark, r"\x{{{:X}}}", u32::from(first));
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if is_range {
                self.next();
                let last = self.character()?;
                let _ = write!(self.lark, r"-\x{{{:X}}}", u32::from(last));
            }
            is_empty = false;
        }
        if is_empty {
            return self.wrong("a class of characters is empty");
        }
        self.lark.push_str("]/");
        Ok(())
    }

    /// A character, or its escape.
    fn character(&mut self) -> Result<char, GrammarError> {
        let Some(first) = self.next() else { return self.wrong("it ends within a text") };
        if first != '\\' {
            return Ok(first);
        }
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(escaped @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/')) => return Ok(escaped),
            _ => return self.wrong("there is no such escape"),
        };
        let code = self.rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        let Some(code) = code else { return self.wrong("an escape names no character") };
        self.rest = &self.rest[digits..];
        Ok(code)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grammar_is_rewritten() {
        let text = "# a list\nroot ::= item+ # at least one\nitem ::= \"- \" [^\\n]{1,40} \"\\n\" |\n  (\"x\" .\n | [a-z0-]?)\n";
        let lark = "start: rule1+\nrule1: \"- \" /[^\\x{A}]/{1,40} \"\\n\" | ( \"x\" /[\\x{0}-\\x{10FFFF}]/ | \
                    /[\\x{61}-\\x{7A}\\x{30}\\x{2D}]/?)\n";
        assert_eq!(to_lark(text).unwrap(), lark);
        assert!(is_gbnf(text) && !is_gbnf("start: \"a\"\n") && !is_gbnf("start: \"a ::= b\""));
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let line = |text: &str| match to_lark(text) {
            Err(GrammarError::Gbnf { line, why }) => (line, why.to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(line("root ::= a\na ::= \"b"), (2, "a text is not closed".to_owned()));
        assert_eq!(line("root ::= a\n\n b"), (3, "'::=' comes after the name of a rule".to_owned()));
        assert_eq!(line("a ::= \"b\""), (1, "there is no rule named root".to_owned()));
        assert_eq!(line("root ::= \"b\"\n | c"), (2, "a rule begins with its name".to_owned()));
        assert_eq!(line("root ::= \"b\" |\n c"), (2, "it refers to a rule that is not defined".to_owned()));
        assert_eq!(line("root ::= (\"b\""), (1, "a parenthesis is not closed".to_owned()));
        assert_eq!(line("root ::= [\\q]"), (1, "there is no such escape".to_owned()));
        assert_eq!(line("root ::= []"), (1, "a class of characters is empty".to_owned()));
        assert_eq!(line("root ::= \"a\"{2"), (1, "a brace is not closed".to_owned()));
        assert_eq!(line("root ::= \"a\"\nroot ::= \"b\""), (2, "a rule of this name is defined before".to_owned()));
        assert_eq!(line("root ::= \"\\xG\u{1F986}\""), (1, "an escape names no character".to_owned()));
    }
}
