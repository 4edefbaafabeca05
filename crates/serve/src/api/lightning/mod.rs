//! The interface of rwkv_lightning and rwkv_lightning_cuda: the names that their clients send, mapped on this server's
//! fields and answers.

mod adapters;
mod contents;
mod names;
mod states;
mod status;
mod think;
mod tokens;
mod upload;

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
pub(super) use adapters::adapters;
use axum::http::HeaderMap;
use axum::response::Response;
pub(super) use states::{delete, list, upload};
pub(super) use status::status;
pub(super) use think::ThinkType;
pub(super) use tokens::count;

/// Answers a chat or, if it has `contents`, continues those texts.
pub(super) async fn chat(served: &Served, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let sent = names::translate(&mut fields, headers)?;
    let answer = match fields.has("contents") {
        true => contents::complete(served, fields).await,
        false => super::chat::chat(served, fields).await,
    };
    answer.map_err(|refused| sent.name(refused))
}

/// Continues texts.
pub(super) async fn completions(served: &Served, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let sent = names::translate(&mut fields, headers)?;
    let answer = super::completions::complete(served, fields).await;
    answer.map_err(|refused| sent.name(refused))
}

/// Continues the texts in `contents`.
pub(super) async fn batch(served: &Served, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let sent = names::translate(&mut fields, headers)?;
    contents::complete(served, fields).await.map_err(|refused| sent.name(refused))
}

/// Continues one text in `contents` from the state of its `session_id`.
pub(super) async fn session(served: &Served, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let sent = names::translate(&mut fields, headers)?;
    if !fields.has("session_id") {
        return Err(Refused::field("session_id", "it is missing"));
    }
    contents::complete(served, fields).await.map_err(|refused| sent.name(refused))
}
