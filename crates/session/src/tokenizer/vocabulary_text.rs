//! The text format of RWKV vocabularies: one `id literal length` line per token, the literal in Python's notation.

use std::fmt;

/// Ids from here on are refused: far above any model, low enough that a wrong id cannot exhaust the memory.
const ID_LIMIT: usize = 1 << 22;

/// Which line of a vocabulary file is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("vocabulary line {line}: {fault}")]
pub struct VocabularyTextError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: VocabularyTextFault,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VocabularyTextFault {
    /// The line is not UTF-8 or not three fields.
    Shape,
    /// The id is no number from 1 to 4,194,303.
    Id,
    /// An earlier line has the same id.
    Duplicate(usize),
    /// The second field is no Python `str` or `bytes` literal.
    Literal,
    /// The literal stands for another number of bytes than the line says.
    Length {
        /// What the line says.
        stated: usize,
        /// What the literal has.
        found: usize,
    },
}

impl fmt::Display for VocabularyTextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => f.write_str("expected UTF-8 text of the form `id literal length`"),
            Self::Id => write!(f, "the id is not a number from 1 to {}", ID_LIMIT - 1),
            Self::Duplicate(id) => write!(f, "id {id} already has a token"),
            Self::Literal => f.write_str("the token is not a Python str or bytes literal of at least one byte"),
            Self::Length { stated, found } => write!(f, "the token has {found} bytes, the line says {stated}"),
        }
    }
}

/// Reads a vocabulary such as `rwkv_vocab_v20230424.txt`: entry i holds the bytes of token i, ids without a line are
/// empty. Lines may end in LF or CR LF.
///
/// # Errors
/// The first line that is malformed, that repeats an id, or whose length does not match its token.
pub fn parse_vocabulary_text(text: &[u8]) -> Result<Vec<Vec<u8>>, VocabularyTextError> {
    let mut entries: Vec<Vec<u8>> = vec![Vec::new()];
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    for (index, line) in body.split(|&byte| byte == b'\n').enumerate() {
        let (id, token) = parse_line(line).map_err(|fault| VocabularyTextError { line: index + 1, fault })?;
        if id >= entries.len() {
            entries.resize(id + 1, Vec::new());
        }
        if !entries[id].is_empty() {
            return Err(VocabularyTextError { line: index + 1, fault: VocabularyTextFault::Duplicate(id) });
        }
        entries[id] = token;
    }
    Ok(entries)
}

fn parse_line(line: &[u8]) -> Result<(usize, Vec<u8>), VocabularyTextFault> {
    use VocabularyTextFault as Fault;
    let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).map_err(|_| Fault::Shape)?;
    let (id, rest) = line.split_once(' ').ok_or(Fault::Shape)?;
    let (literal, stated) = rest.rsplit_once(' ').ok_or(Fault::Shape)?;
    let id = id.parse().ok().filter(|id| (1..ID_LIMIT).contains(id)).ok_or(Fault::Id)?;
    let stated = stated.parse().map_err(|_| Fault::Shape)?;
    let token = parse_literal(literal).filter(|token| !token.is_empty()).ok_or(Fault::Literal)?;
    if token.len() != stated {
        return Err(Fault::Length { stated, found: token.len() });
    }
    Ok((id, token))
}

/// The bytes of a Python literal as `repr` writes it: `'text'` (UTF-8) or `b'bytes'`, in either kind of quotes.
fn parse_literal(literal: &str) -> Option<Vec<u8>> {
    let (is_bytes, quoted) = match literal.strip_prefix('b') {
        Some(quoted) => (true, quoted),
        None => (false, literal),
    };
    let quote = quoted.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let mut rest = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let code = match c {
            '\\' => parse_escape(&mut rest, is_bytes)?,
            c if c == quote => return None,
            c => u32::from(c),
        };
        if is_bytes {
            // An escape may name any byte; an unescaped character is ASCII.
            bytes.push(u8::try_from(code).ok().filter(|_| c.is_ascii())?);
        } else {
            bytes.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Some(bytes)
}

/// The code that an escape stands for; `rest` begins behind the backslash and is moved behind the escape.
fn parse_escape(rest: &mut &str, is_bytes: bool) -> Option<u32> {
    let kind = rest.chars().next()?;
    *rest = &rest[kind.len_utf8()..];
    let digits = match kind {
        '\\' | '\'' | '"' => return Some(u32::from(kind)),
        'n' => return Some(u32::from(b'\n')),
        'r' => return Some(u32::from(b'\r')),
        't' => return Some(u32::from(b'\t')),
        'x' => 2,
        'u' if !is_bytes => 4,
        'U' if !is_bytes => 8,
        _ => return None,
    };
    let (hex, behind) = rest.split_at_checked(digits).filter(|(hex, _)| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
    *rest = behind;
    u32::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_follow_python() {
        let cases: [(&str, Option<&[u8]>); 17] = [
            ("'abc'", Some(b"abc")),
            (r#""it's""#, Some(b"it's")),
            (r#"'say "x"'"#, Some(b"say \"x\"")),
            (r#"'\'"\\\n\r\t'"#, Some(b"'\"\\\n\r\t")),
            (r"'\x80'", Some(b"\xc2\x80")),
            (r"b'\x80'", Some(b"\x80")),
            (r"'\u3000\U0001f600'", Some("\u{3000}\u{1f600}".as_bytes())),
            ("'\u{4e2d}'", Some("\u{4e2d}".as_bytes())),
            ("b'\u{e9}'", None),
            (r"b'\u3000'", None),
            (r"'\ud800'", None),
            (r"'\x8'", None),
            (r"'\x+8'", None),
            (r"'\q'", None),
            (r"'\'", None),
            ("'a'b'", None),
            ("'", None),
        ];
        for (literal, expected) in cases {
            assert_eq!(parse_literal(literal).as_deref(), expected, "{literal}");
        }
    }

    #[test]
    fn entries_are_stored_at_their_ids() {
        let entries = parse_vocabulary_text(b"2 'b' 1\r\n4 ' ' 1\n1 b'\\xff' 1").unwrap();
        assert_eq!(entries, [&b""[..], b"\xff", b"b", b"", b" "]);
    }

    #[test]
    fn faults_name_line_and_reason() {
        use VocabularyTextFault as Fault;
        for (text, line, fault) in [
            (&b"1 'a' 1\n\n"[..], 2, Fault::Shape),
            (b"1 'a'", 1, Fault::Shape),
            (b"1 'a' x", 1, Fault::Shape),
            (b"1 '\xff' 1", 1, Fault::Shape),
            (b"0 'a' 1", 1, Fault::Id),
            (b"99999999999 'a' 1", 1, Fault::Id),
            (b"4194304 'a' 1", 1, Fault::Id),
            (b"1 'a' 1\n1 'b' 1", 2, Fault::Duplicate(1)),
            (b"1 a 1", 1, Fault::Literal),
            (b"1 '' 0", 1, Fault::Literal),
            (b"1 'ab' 1", 1, Fault::Length { stated: 1, found: 2 }),
        ] {
            assert_eq!(parse_vocabulary_text(text), Err(VocabularyTextError { line, fault }));
        }
    }
}
