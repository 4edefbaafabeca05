//! `/v1/tokens/count`: the number of tokens of a text, of a chat or of `contents`.

use super::names;
use crate::api::Served;
use crate::api::chat;
use crate::api::fields::Fields;
use crate::api::messages::prompt;
use crate::api::refused::Refused;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

pub(in crate::api) fn count(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    names::translate(&mut fields, &HeaderMap::new())?;
    let _: Option<Value> = fields.take("model")?;
    let text: String = match fields.take("text")? {
        Some(text) => text,
        None if fields.has("messages") => {
            let (messages, think, begun) = chat::messages(&mut fields)?;
            prompt(&served.format, chat::FIELD, &messages, None, (false, think))? + begun
        }
        None => match fields.take::<Vec<String>>("contents")? {
            Some(contents) => contents.concat(),
            None => return Err(Refused::field("text", "it is missing: give text, messages or contents")),
        },
    };
    fields.finish()?;
    let tokens = served.tokenizer.encode(text.as_bytes()).len();
    Ok(crate::api::json(StatusCode::OK, &json!({ "tokens": tokens })))
}
