//! The JSON header of a safetensors file.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// A tensor as the header describes it.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Described {
    /// The type's name.
    pub(super) dtype: String,
    /// Sizes, slowest-varying first.
    pub(super) shape: Vec<usize>,
    /// First byte and the byte behind the last, from the end of the header.
    pub(super) data_offsets: [u64; 2],
}

/// All entries in the file's order. Unlike a map it keeps a name that stands twice, which the reader must refuse.
#[derive(Debug)]
pub(super) struct Header(pub(super) Vec<(String, Described)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from names to tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match map.next_value() {
                Ok(tensor) => entries.push((name, tensor)),
                Err(error) => return Err(A::Error::custom(format_args!("tensor '{name}': {error}"))),
            }
        }
        Ok(Header(entries))
    }
}
