//! Metadata of a GGUF file that a caller sets by name.

use std::fmt;
use std::str::FromStr;

/// A key of a GGUF file and its value: `general.license=MIT`. The value has the type that the file has for the key, and
/// is a text where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub(super) key: String,
    pub(super) value: String,
}

/// Longest key of a GGUF file, in bytes.
const LONGEST: usize = 65_535;

/// A text that is no [`Setting`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no KEY=VALUE with a key of words between dots, such as general.license=MIT")]
pub struct UnknownSetting(pub String);

impl FromStr for Setting {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        let is_key = |key: &str| key.len() <= LONGEST && key.contains('.') && key.split('.').all(is_word);
        let parts = text.split_once('=').filter(|(key, _)| is_key(key));
        let (key, value) = parts.ok_or_else(|| UnknownSetting(text.to_owned()))?;
        Ok(Setting { key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_words_between_dots() {
        for text in ["general.license=MIT OR Apache-2.0", "general.url=https://x.org/?a=b", "a.b_c-1.D="] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        for text in ["license=MIT", "general.license", "=x", ".a=x", "general.=x", "general. license=x", ""] {
            assert_eq!(text.parse::<Setting>(), Err(UnknownSetting(text.into())));
        }
    }
}
