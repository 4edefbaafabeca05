//! The key-value section of a GGUF file.

use super::GgufError;
use super::cursor::Cursor;
use super::pair::{Pair, kind};
use crate::contents::{Pairs, Strings};
use std::collections::HashMap;

/// Arrays in arrays are legal; no model needs many.
const MAX_NESTING: usize = 4;

/// A value, as far as models need it.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Unsigned(u64),
    Float(f64),
    Text(&'a [u8]),
    Strings(Strings),
    /// A negative number, a truth value, another array.
    Unused,
}

/// All keys with their values.
#[derive(Debug)]
pub(super) struct Metadata<'a>(HashMap<&'a str, Value<'a>>);

impl<'a> Metadata<'a> {
    /// Reads `count` pairs.
    pub(super) fn read(cursor: &mut Cursor<'a>, count: u64) -> Result<Self, GgufError> {
        let mut values = HashMap::new();
        for _ in 0..count {
            let offset = cursor.offset();
            let (key, kind) = head(cursor)?;
            let value = value(cursor, key, kind)?;
            if values.insert(key, value).is_some() {
                return Err(GgufError::DuplicateKey { key: key.to_owned(), offset });
            }
        }
        Ok(Metadata(values))
    }

    /// A number that is not negative.
    pub(super) fn unsigned(&self, key: &'static str) -> Result<Option<u64>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(value)) => Ok(Some(*value)),
            Some(_) => Err(GgufError::KeyKind { key, expected: "number, 0 or greater" }),
        }
    }

    /// A floating-point number.
    pub(super) fn float(&self, key: &'static str) -> Result<Option<f64>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Float(value)) => Ok(Some(*value)),
            Some(_) => Err(GgufError::KeyKind { key, expected: "floating-point number" }),
        }
    }

    /// A string; bytes that are no UTF-8 become replacement characters.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            Some(_) => Err(GgufError::KeyKind { key, expected: "string" }),
        }
    }

    /// An array of strings.
    pub(super) fn strings(&self, key: &'static str) -> Result<Option<Strings>, GgufError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Strings(strings)) => Ok(Some(*strings)),
            Some(_) => Err(GgufError::KeyKind { key, expected: "array of strings" }),
        }
    }
}

/// The pairs of a file as they are written. They were checked when the file was opened; should the file have changed
/// since, those behind the change are left out.
pub(crate) fn pairs(file: &[u8], pairs: Pairs) -> Vec<Pair> {
    let mut cursor = Cursor::new(file, pairs.offset);
    let one = |_| {
        let (key, kind) = head(&mut cursor).ok()?;
        let start = cursor.offset();
        value(&mut cursor, key, kind).ok()?;
        Some(Pair { key: key.to_owned(), kind, value: file[start..cursor.offset()].to_vec() })
    };
    (0..pairs.count).map_while(one).collect()
}

/// Reads a key and the type of its value.
fn head<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, u32), GgufError> {
    Ok((cursor.name("key")?, cursor.u32("type of a value")?))
}

/// Bytes of a value of that type; `None` for strings, arrays and types that do not exist.
fn scalar_bytes(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads the value behind its type.
fn value<'a>(cursor: &mut Cursor<'a>, key: &str, kind: u32) -> Result<Value<'a>, GgufError> {
    let type_offset = cursor.offset() - size_of::<u32>();
    match kind {
        kind::STRING => cursor.string("string").map(Value::Text),
        kind::ARRAY => array(cursor, key, 1),
        _ => {
            let bytes = scalar_bytes(kind).ok_or_else(|| unknown(key, kind, type_offset))?;
            Ok(scalar(kind, cursor.take("value", bytes)?))
        }
    }
}

fn unknown(key: &str, found: u32, offset: usize) -> GgufError {
    GgufError::ValueType { key: key.to_owned(), found, offset }
}

fn scalar(kind: u32, bytes: &[u8]) -> Value<'static> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    match kind {
        0 | 2 | 4 | 10 => Value::Unsigned(bits),
        // Signed types; a clear top bit leaves the same number as the unsigned reading.
        1 | 3 | 5 | 11 if bits >> (8 * bytes.len() - 1) == 0 => Value::Unsigned(bits),
        6 => Value::Float(f64::from(f32::from_bits(bits as u32))),
        12 => Value::Float(f64::from_bits(bits)),
        _ => Value::Unused,
    }
}

/// Walks an array. Every element takes at least a byte of the file, so the time is bounded by the file's length.
fn array<'a>(cursor: &mut Cursor<'a>, key: &str, depth: usize) -> Result<Value<'a>, GgufError> {
    if depth > MAX_NESTING {
        return Err(GgufError::Nesting { key: key.to_owned(), limit: MAX_NESTING, offset: cursor.offset() });
    }
    let type_offset = cursor.offset();
    let kind = cursor.u32("type of an array")?;
    match kind {
        kind::STRING => {
            let count = cursor.count("strings", 8)?;
            let offset = cursor.offset();
            for _ in 0..count {
                cursor.string("string of an array")?;
            }
            // Bounded by the file's length, hence no truncation.
            Ok(Value::Strings(Strings { offset, count: count as usize }))
        }
        kind::ARRAY => {
            for _ in 0..cursor.count("arrays", 12)? {
                array(cursor, key, depth + 1)?;
            }
            Ok(Value::Unused)
        }
        _ => {
            let bytes = scalar_bytes(kind).ok_or_else(|| unknown(key, kind, type_offset))?;
            let count = cursor.count("elements of an array", bytes as usize)?;
            cursor.take("array", count * bytes)?;
            Ok(Value::Unused)
        }
    }
}
