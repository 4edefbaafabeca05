//! A key of a GGUF file with its value, as the file has it.

/// Numbers of the types of values.
pub(crate) mod kind {
    pub(crate) const UINT32: u32 = 4;
    pub(crate) const INT32: u32 = 5;
    pub(crate) const FLOAT32: u32 = 6;
    pub(crate) const STRING: u32 = 8;
    pub(crate) const ARRAY: u32 = 9;
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: String,
    /// Number of the value's type.
    pub(crate) kind: u32,
    /// The value as the file has it.
    pub(crate) value: Vec<u8>,
}

impl Pair {
    fn new(key: &str, kind: u32, value: Vec<u8>) -> Self {
        Pair { key: key.to_owned(), kind, value }
    }

    pub(crate) fn u32(key: &str, value: u32) -> Self {
        Pair::new(key, kind::UINT32, value.to_le_bytes().into())
    }

    pub(crate) fn f32(key: &str, value: f32) -> Self {
        Pair::new(key, kind::FLOAT32, value.to_le_bytes().into())
    }

    pub(crate) fn string(key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        push_string(&mut bytes, value);
        Pair::new(key, kind::STRING, bytes)
    }

    pub(crate) fn strings<'a>(key: &str, values: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let mut bytes = array(kind::STRING, values.len());
        values.for_each(|value| push_string(&mut bytes, value));
        Pair::new(key, kind::ARRAY, bytes)
    }

    pub(crate) fn i32s(key: &str, values: impl ExactSizeIterator<Item = i32>) -> Self {
        let mut bytes = array(kind::INT32, values.len());
        values.for_each(|value| bytes.extend(value.to_le_bytes()));
        Pair::new(key, kind::ARRAY, bytes)
    }

    /// The same key with the value that a text stands for, of the same type; `None` where the text is none of that
    /// type, and for arrays.
    pub(crate) fn with(&self, text: &str) -> Option<Self> {
        let value = match self.kind {
            0 => text.parse::<u8>().ok()?.to_le_bytes().into(),
            1 => text.parse::<i8>().ok()?.to_le_bytes().into(),
            2 => text.parse::<u16>().ok()?.to_le_bytes().into(),
            3 => text.parse::<i16>().ok()?.to_le_bytes().into(),
            kind::UINT32 => text.parse::<u32>().ok()?.to_le_bytes().into(),
            kind::INT32 => text.parse::<i32>().ok()?.to_le_bytes().into(),
            kind::FLOAT32 => text.parse::<f32>().ok()?.to_le_bytes().into(),
            7 => vec![u8::from(text.parse::<bool>().ok()?)],
            kind::STRING => return Some(Pair::string(&self.key, text)),
            10 => text.parse::<u64>().ok()?.to_le_bytes().into(),
            11 => text.parse::<i64>().ok()?.to_le_bytes().into(),
            12 => text.parse::<f64>().ok()?.to_le_bytes().into(),
            _ => return None,
        };
        Some(Pair { key: self.key.clone(), kind: self.kind, value })
    }

    /// What the value is, for people.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            0 | 2 | kind::UINT32 | 10 => "a whole number, 0 or greater",
            1 | 3 | kind::INT32 | 11 => "a whole number",
            kind::FLOAT32 | 12 => "a number",
            7 => "a truth value (true or false)",
            kind::STRING => "a text",
            _ => "an array",
        }
    }

    /// Appends the pair to a file.
    pub(crate) fn push_to(&self, file: &mut Vec<u8>) {
        push_string(file, &self.key);
        file.extend(self.kind.to_le_bytes());
        file.extend(&self.value);
    }
}

fn array(kind: u32, len: usize) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(len as u64).to_le_bytes()].concat()
}

/// Appends a string: its length in 64 bits, then its bytes.
pub(crate) fn push_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_value_of_the_type_that_is_there() {
        for (kind, text, value) in [
            (0, "255", vec![255]),
            (1, "-1", vec![255]),
            (3, "-2", vec![254, 255]),
            (kind::UINT32, "7", vec![7, 0, 0, 0]),
            (kind::FLOAT32, "0.5", 0.5_f32.to_le_bytes().into()),
            (7, "true", vec![1]),
            (kind::STRING, "MIT", vec![3, 0, 0, 0, 0, 0, 0, 0, b'M', b'I', b'T']),
            (11, "-3", (-3_i64).to_le_bytes().into()),
            (12, "1e300", 1e300_f64.to_le_bytes().into()),
        ] {
            let there = Pair { key: "a.key".into(), kind, value: vec![] };
            assert_eq!(there.with(text), Some(Pair { value, ..there.clone() }), "{text}");
        }
        for (kind, text) in [(0, "256"), (kind::UINT32, "-1"), (kind::FLOAT32, "much"), (7, "1"), (kind::ARRAY, "1")] {
            assert_eq!(Pair { key: "a.key".into(), kind, value: vec![] }.with(text), None, "{text}");
        }
    }
}
