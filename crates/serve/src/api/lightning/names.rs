//! Names of fields and headers that mean the same as others here.

use crate::api::fields::Fields;
use crate::api::refused::Refused;
use axum::http::HeaderMap;
use serde_json::Value;

/// Headers, and the fields that they stand for.
const HEADERS: [(&str, &str); 2] = [("x-rwkv-state-id", "state_id"), ("x-rwkv-session-id", "session_id")];

/// Names of fields there and here.
const NAMES: [(&str, &str); 3] = [
    ("alpha_presence", "presence_penalty"),
    ("alpha_frequency", "frequency_penalty"),
    ("alpha_decay", "penalty_decay"),
];

/// Fields that change no text: how many tokens a piece of a stream has, records of times, the key (which the header
/// `Authorization` has), and the prefix cache.
const WITHOUT_EFFECT: [&str; 6] =
    ["chunk_size", "include_metrics", "metrics", "password", "report_metrics", "use_prefix_cache"];

/// Fields that are not supported, with their neutral values.
const UNSUPPORTED: [(&str, &[&str]); 4] =
    [("dialogue_idx", &["0"]), ("force_reasoning", &["false"]), ("noise", &["0", "0.0"]), ("pad_zero", &["false"])];

/// The names that a request used.
pub(super) struct Sent(Vec<(&'static str, &'static str)>);

impl Sent {
    /// A refusal with the name that the client sent.
    pub(super) fn name(&self, refused: Refused) -> Refused {
        let name = self.0.iter().find(|(_, here)| refused.field.as_deref() == Some(here));
        match name {
            Some((name, here)) => {
                let why = refused.why.replacen(here, name, 1);
                Refused { field: Some((*name).to_owned()), why, ..refused }
            }
            None => refused,
        }
    }
}

/// Translates the names of a request.
///
/// # Errors
/// A value is given twice, has another type, or cannot be honoured.
pub(super) fn translate(fields: &mut Fields, headers: &HeaderMap) -> Result<Sent, Refused> {
    take_headers(fields, headers)?;
    let mut sent = Vec::new();
    for (name, here) in NAMES {
        if fields.has(name) {
            fields.rename(name, here)?;
            sent.push((name, here));
        }
    }
    for name in WITHOUT_EFFECT {
        let _: Option<Value> = fields.take(name)?;
    }
    fields.neutral(&UNSUPPORTED)?;
    take_stop_tokens(fields)?;
    take_system(fields)?;
    Ok(Sent(sent))
}

/// Takes the headers as fields. An empty state or session means none.
pub(super) fn take_headers(fields: &mut Fields, headers: &HeaderMap) -> Result<(), Refused> {
    for (header, name) in HEADERS {
        let in_body: Option<String> = fields.take(name)?;
        let in_body = in_body.filter(|id| !id.trim().is_empty());
        let in_header = match headers.get(header).map(|value| value.to_str()) {
            Some(Ok(id)) => Some(id.trim().to_owned()).filter(|id| !id.is_empty()),
            Some(Err(_)) => return Err(Refused::field(name, format_args!("the header {header} is no text"))),
            None => None,
        };
        match (in_body, in_header) {
            (Some(one), Some(other)) if one != other => {
                return Err(Refused::field(name, format_args!("the header {header} has another value")));
            }
            (one, other) => one.or(other).into_iter().for_each(|id| fields.set(name, id)),
        }
    }
    Ok(())
}

/// Splits `stop_tokens` into token ids and texts: one of their servers takes ids, the other one texts.
fn take_stop_tokens(fields: &mut Fields) -> Result<(), Refused> {
    let Some(stops) = fields.take::<Vec<Value>>("stop_tokens")? else { return Ok(()) };
    let (texts, ids): (Vec<Value>, Vec<Value>) = stops.into_iter().partition(Value::is_string);
    let is_id = |id: &Value| id.as_u64().is_some_and(|id| u32::try_from(id).is_ok());
    if let Some(other) = ids.iter().find(|id| !is_id(id)) {
        return Err(Refused::field("stop_tokens", format_args!("{other} is neither a token id nor a text")));
    }
    for (name, mut stops) in [("stop_token_ids", ids), ("stop", texts)] {
        let listed = match fields.take::<Value>(name)? {
            Some(Value::Array(listed)) => listed,
            other => other.into_iter().collect(),
        };
        stops.extend(listed);
        fields.set(name, stops);
    }
    Ok(())
}

/// Puts the text of `system` before the messages.
fn take_system(fields: &mut Fields) -> Result<(), Refused> {
    let Some(text) = fields.take::<String>("system")?.filter(|text| !text.is_empty()) else { return Ok(()) };
    match fields.get_mut("messages") {
        Some(Value::Array(messages)) => {
            messages.insert(0, serde_json::json!({ "role": "system", "content": text }));
            Ok(())
        }
        _ => Err(Refused::field("system", "it needs messages")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(body: &str, header: Option<&str>) -> Result<(Fields, Sent), Refused> {
        let mut headers = HeaderMap::new();
        header.into_iter().for_each(|id| drop(headers.insert("x-rwkv-state-id", id.parse().unwrap())));
        let mut fields = Fields::of(body.as_bytes()).unwrap();
        let sent = translate(&mut fields, &headers)?;
        Ok((fields, sent))
    }

    #[test]
    fn names_are_translated_and_refusals_have_the_sent_ones() {
        let body = r#"{"alpha_presence": 2, "chunk_size": 8, "stop_tokens": [0, "\nUser:", 261], "state_id": ""}"#;
        let (mut fields, sent) = translated(body, None).unwrap();
        assert_eq!(fields.take::<f32>("presence_penalty").unwrap(), Some(2.0));
        assert_eq!(fields.take::<Vec<u32>>("stop_token_ids").unwrap(), Some(vec![0, 261]));
        assert_eq!(fields.take::<Vec<String>>("stop").unwrap(), Some(vec!["\nUser:".to_owned()]));
        assert!(!fields.has("state_id"));
        fields.finish().unwrap();
        let refused = sent.name(Refused::field("presence_penalty", "it is wrong"));
        assert_eq!(
            (refused.field.as_deref(), &refused.why[..]),
            (Some("alpha_presence"), "alpha_presence: it is wrong")
        );
        for (body, field) in [
            (r#"{"alpha_decay": 1, "penalty_decay": 1}"#, "penalty_decay"),
            (r#"{"stop_tokens": [1.5]}"#, "stop_tokens"),
            (r#"{"stop_tokens": [4294967296]}"#, "stop_tokens"),
            (r#"{"noise": 1.5}"#, "noise"),
            (r#"{"system": "Honk."}"#, "system"),
        ] {
            assert_eq!(translated(body, None).err().and_then(|why| why.field).as_deref(), Some(field), "{body}");
        }
    }

    #[test]
    fn a_header_and_a_field_agree() {
        let id = |body: &str, header| translated(body, header).unwrap().0.take::<String>("state_id").unwrap();
        assert_eq!(id("{}", Some(" a ")).as_deref(), Some("a"));
        assert_eq!(id(r#"{"state_id": "a"}"#, Some("a")).as_deref(), Some("a"));
        assert_eq!(id(r#"{"state_id": "a"}"#, Some("")).as_deref(), Some("a"));
        let refused = translated(r#"{"state_id": "a"}"#, Some("b")).err().unwrap();
        assert_eq!((refused.field.as_deref(), refused.status.as_u16()), (Some("state_id"), 400));
    }

    #[test]
    fn a_system_text_is_the_first_message() {
        let body = r#"{"system": "Honk.", "messages": [{"role": "user", "content": "a"}]}"#;
        let mut fields = translated(body, None).unwrap().0;
        let messages: Value = fields.need("messages").unwrap();
        assert_eq!(messages[0], serde_json::json!({ "role": "system", "content": "Honk." }));
        assert_eq!(messages.as_array().unwrap().len(), 2);
    }
}
