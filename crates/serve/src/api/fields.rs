//! The fields of a request. Handlers take the fields that they know; any other field is refused, because it could
//! change the answer.

use super::refused::Refused;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Fields that do not change the answer.
const WITHOUT_EFFECT: [&str; 7] =
    ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// The fields of a request that no handler has taken yet.
#[derive(Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of a body.
    ///
    /// # Errors
    /// It is no JSON object.
    pub(super) fn of(body: &[u8]) -> Result<Self, Refused> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(Refused::wrong("the body is no JSON object")),
            Err(why) => Err(Refused::wrong(format!("the body is no JSON: {why}"))),
        }
    }

    /// Takes a field. Null means absent.
    ///
    /// # Errors
    /// Its value has another type.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Refused> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|why| Refused::field(name, why)),
        }
    }

    /// Takes a field that has two names.
    ///
    /// # Errors
    /// As [`Fields::take`], or both are given.
    pub(super) fn take_either<T: DeserializeOwned>(&mut self, name: &str, other: &str) -> Result<Option<T>, Refused> {
        match (self.take(name)?, self.take(other)?) {
            (Some(_), Some(_)) => Err(Refused::field(other, format_args!("{name} says the same: give one of them"))),
            (one, another) => Ok(one.or(another)),
        }
    }

    /// Whether a field is given. Null means absent.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Sets a field.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Gives a field another name.
    ///
    /// # Errors
    /// Both are given.
    pub(super) fn rename(&mut self, name: &str, other: &str) -> Result<(), Refused> {
        if let Some(value) = self.take_either::<Value>(name, other)? {
            self.set(other, value);
        }
        Ok(())
    }

    /// A field, to be changed in place.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.0.get_mut(name)
    }

    /// Takes a field that must be there.
    ///
    /// # Errors
    /// As [`Fields::take`], or it is missing.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Refused> {
        self.take(name)?.ok_or_else(|| Refused::field(name, "it is missing"))
    }

    /// Takes fields that are not supported, with their neutral values.
    ///
    /// # Errors
    /// One has another value.
    pub(super) fn neutral(&mut self, names: &[(&str, &[&str])]) -> Result<(), Refused> {
        for (name, same) in names {
            let value = self.take::<Value>(name)?.map(|value| value.to_string());
            if value.is_some_and(|value| !same.contains(&value.as_str())) {
                return Err(Refused::field(name, "it cannot be honoured: leave it out"));
            }
        }
        Ok(())
    }

    /// Ends the parsing.
    ///
    /// # Errors
    /// There are other fields.
    pub(super) fn finish(self) -> Result<(), Refused> {
        match self.0.keys().find(|name| !WITHOUT_EFFECT.contains(&name.as_str())) {
            Some(name) => Err(Refused::field(name, "no field of that name is understood: leave it out")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let mut fields = Fields::of(br#"{"a": 1, "b": null, "n": 2, "user": "x", "c": {}}"#).unwrap();
        assert_eq!(fields.take::<u32>("a").unwrap(), Some(1));
        assert_eq!(fields.take::<u32>("b").unwrap(), None);
        assert_eq!(fields.need::<u32>("d").unwrap_err().why, "d: it is missing");
        assert_eq!(fields.neutral(&[("n", &["1"])]).unwrap_err().field.as_deref(), Some("n"));
        let why = fields.finish().unwrap_err();
        assert_eq!((why.field.as_deref(), why.status.as_u16()), (Some("c"), 400));
        assert!(Fields::of(b"[]").is_err() && Fields::of(b"{").is_err());
    }
}
