//! `/v1/states` and `/v1/conversations`: upload, fork, list, download and delete states.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use super::start::{blocking, states};
use crate::states::{StateOwner, StoredState};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

fn object(state: &StoredState) -> Value {
    json!({ "id": state.id, "object": "state", "bytes": state.bytes, "created": state.modified })
}

/// Stores a file, or with a body of JSON `{"from": ID}` a copy of a state.
pub(super) async fn upload(served: &Served, body: Vec<u8>) -> Result<Response, Refused> {
    let states = states(served)?;
    // No file of a state is a JSON object.
    let from: Option<String> = match Fields::of(&body) {
        Ok(mut fields) => {
            let from = fields.need("from")?;
            fields.finish()?;
            Some(from)
        }
        Err(_) => None,
    };
    let id = blocking(move || match from {
        Some(id) => states.add(&states.load(StateOwner::Server, &id)?),
        None => states.upload(&body),
    });
    Ok(super::json(StatusCode::OK, &json!({ "id": id.await?, "object": "state" })))
}

pub(super) async fn list(served: &Served, owner: StateOwner) -> Result<Response, Refused> {
    let states = states(served)?;
    let all = blocking(move || states.list(owner)).await?;
    let data: Vec<Value> = all.iter().map(object).collect();
    Ok(super::json(StatusCode::OK, &json!({ "object": "list", "data": data })))
}

/// The file of a state.
pub(super) async fn download(served: &Served, id: String) -> Result<Response, Refused> {
    let states = states(served)?;
    let bytes = blocking(move || states.bytes(&id)).await?;
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// The text of a conversation, as messages.
pub(super) async fn conversation(served: &Served, id: String) -> Result<Response, Refused> {
    let (states, name) = (states(served)?, id.clone());
    let chat = blocking(move || states.load(StateOwner::Client, &id)).await?;
    let said = |role: &str, content: &str| json!({ "role": role, "content": content });
    let pair = |turn: &wgoose_session::ChatTurn| [said("user", &turn.message), said("assistant", &turn.answer)];
    let messages: Vec<Value> = chat.turns.iter().flat_map(pair).collect();
    Ok(super::json(StatusCode::OK, &json!({ "id": name, "object": "conversation", "messages": messages })))
}

pub(super) async fn delete(served: &Served, owner: StateOwner, id: String) -> Result<Response, Refused> {
    let (states, name) = (states(served)?, id.clone());
    blocking(move || states.delete(owner, &id)).await?;
    Ok(super::json(StatusCode::OK, &json!({ "id": name, "deleted": true })))
}
