//! `/tokenize` and `/detokenize`, with the field names of vLLM and of llama.cpp.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

pub(super) fn tokenize(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let _: Option<String> = fields.take("model")?;
    let text: Option<String> = fields.take_either("prompt", "content")?;
    fields.finish()?;
    let text = text.ok_or_else(|| Refused::field("prompt", "it is missing"))?;
    let tokens = served.tokenizer.encode(text.as_bytes());
    Ok(super::json(StatusCode::OK, &json!({ "tokens": tokens, "count": tokens.len() })))
}

pub(super) fn detokenize(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let _: Option<String> = fields.take("model")?;
    let tokens: Vec<u32> = fields.need("tokens")?;
    fields.finish()?;
    if let Some(token) = tokens.iter().find(|token| served.tokenizer.token(**token).is_none()) {
        return Err(Refused::field("tokens", format_args!("the vocabulary has no token {token}")));
    }
    let text = served.text(&tokens);
    Ok(super::json(StatusCode::OK, &json!({ "prompt": text, "content": text })))
}
