//! Floats that may be infinite or NaN. JSON has no word for them; a wrong kernel's error needs one.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serializer};

/// Writes a finite number as such, any other as `"NaN"`, `"inf"` or `"-inf"`.
pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { to.serialize_f64(*value) } else { to.serialize_str(&value.to_string()) }
}

/// Reads either form.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Number(f64),
        Word(String),
    }
    match Form::deserialize(from)? {
        Form::Number(value) => Ok(value),
        Form::Word(word) => match word.as_str() {
            "NaN" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            _ => Err(D::Error::custom(format!("{word:?} is no number"))),
        },
    }
}
