//! `/v1/state/upload`, `/v1/state/list` and `/v1/state/delete`: states under the names of their files.

use super::names;
use super::upload::{UploadedFile, file};
use crate::api::Served;
use crate::api::fields::Fields;
use crate::api::refused::Refused;
use crate::api::start::{blocking, states};
use crate::states::{StateOwner, StatesError, StoredState, id_of_file};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

fn entry(state: &StoredState, layers: usize) -> Value {
    json!({
        "state_id": state.id,
        "filename": state.id,
        "size_bytes": state.bytes,
        "tensor_count": layers,
        "created": state.modified,
    })
}

/// Stores the file of a form under its name. The same state under the same name is stored once.
pub(in crate::api) async fn upload(served: &Served, headers: &HeaderMap, body: Vec<u8>) -> Result<Response, Refused> {
    let states = states(served)?;
    let UploadedFile { name, bytes } = file(headers, body).await?;
    let (state, layers) = blocking(move || Ok((states.upload_as(&id_of_file(&name), &bytes)?, states.layers())))
        .await
        .map_err(|refused| Refused { field: Some("file".to_owned()), ..refused })?;
    let mut answer = entry(&state, layers);
    answer["object"] = "rwkv.state".into();
    Ok(crate::api::json(StatusCode::OK, &answer))
}

/// Lists the states, the oldest first.
pub(in crate::api) async fn list(served: &Served) -> Result<Response, Refused> {
    let states = states(served)?;
    let layers = states.layers();
    let all = blocking(move || states.list(StateOwner::Server)).await?;
    let data: Vec<Value> = all.iter().rev().map(|state| entry(state, layers)).collect();
    Ok(crate::api::json(StatusCode::OK, &json!({ "object": "list", "data": data })))
}

/// Deletes the state that the body, the header or the query names.
pub(in crate::api) async fn delete(
    served: &Served,
    headers: &HeaderMap,
    query: Option<&str>,
    body: &[u8],
) -> Result<Response, Refused> {
    let mut fields = if body.is_empty() { Fields::default() } else { Fields::of(body)? };
    names::take_headers(&mut fields, headers)?;
    let _: Option<Value> = fields.take("password")?;
    let named: Option<String> = fields.take("state_id")?;
    fields.finish()?;
    // Ids have no characters that a query escapes.
    let queried = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("state_id="));
    let id = match (named, queried.map(str::to_owned)) {
        (Some(one), Some(other)) if one != other => {
            return Err(Refused::field("state_id", "the query has another value"));
        }
        (one, other) => one.or(other).ok_or_else(|| Refused::field("state_id", "it is missing"))?,
    };
    let (states, name) = (states(served)?, id.clone());
    let is_deleted = blocking(move || match states.delete(StateOwner::Server, &id) {
        Ok(()) => Ok(true),
        Err(StatesError::Unknown(_)) => Ok(false),
        Err(why) => Err(why),
    })
    .await?;
    let status = if is_deleted { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(crate::api::json(status, &json!({ "state_id": name, "deleted": is_deleted })))
}
