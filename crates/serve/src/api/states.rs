//! `/v1/states` and `/v1/conversations`: upload, fork, list, download and delete states.

use super::fields::Fields;
use super::messages::{Message, finished};
use super::progress::{TextProgress, Told};
use super::refused::Refused;
use super::start::{blocking, states};
use super::{Served, chat};
use crate::engine::EngineError;
use crate::states::{ChatState, StateOwner, StoredState};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::tokenizer::END_OF_TEXT;
use wgoose_session::{BatchRequest, ChatTurn, GenerateOptions, StateEnd};

/// A bias that leaves one token to choose from, within what the sampler allows.
const HIGHEST_BIAS: f32 = 1e30;

fn object(state: &StoredState) -> Value {
    json!({ "id": state.id, "object": "state", "bytes": state.bytes, "created": state.modified })
}

/// Stores a file. With a body of JSON: `{"from": ID}` a copy of a state, `{"messages": [...]}` the state after a chat.
pub(super) async fn upload(served: &Served, body: Vec<u8>) -> Result<Response, Refused> {
    let states = states(served)?;
    // No file of a state is a JSON object.
    let id = match Fields::of(&body) {
        Ok(fields) if fields.has("messages") => {
            let chat = state_of_chat(served, fields).await?;
            blocking(move || states.add(&chat)).await?
        }
        Ok(mut fields) => {
            let from: String = fields.need("from")?;
            fields.finish()?;
            blocking(move || states.add(&states.load(StateOwner::Server, &from)?)).await?
        }
        Err(_) => blocking(move || states.upload(&body)).await?,
    };
    Ok(super::json(StatusCode::OK, &json!({ "id": id, "object": "state" })))
}

/// The state from which the next message of a chat is read.
async fn state_of_chat(served: &Served, mut fields: Fields) -> Result<ChatState, Refused> {
    let (messages, ..) = chat::messages(&mut fields)?;
    fields.finish()?;
    let (last, turns) = (messages.last().map(|message| message.role.as_str()), turns(&messages));
    if last != Some("assistant") || turns.is_empty() {
        return Err(Refused::field(chat::FIELD, "a stored chat has a message of the user and ends with an answer"));
    }
    let text = finished(&served.format, chat::FIELD, &messages)?;
    let prompt = served.tokenizer.encode(text.as_bytes());
    if prompt.len() > served.options.max_prompt {
        let (got, most) = (prompt.len(), served.options.max_prompt);
        return Err(Refused::field(chat::FIELD, format_args!("{got} tokens are more than the {most} allowed")));
    }
    // The only token that can be chosen ends the text, so that the state is that after the prompt.
    let sampling =
        SamplerOptions { temperature: 0.0, bias: vec![(END_OF_TEXT, HIGHEST_BIAS)], ..SamplerOptions::default() };
    let options = GenerateOptions { sampling, max_tokens: 1, ..GenerateOptions::default() };
    let returned = Some(StateEnd::Text);
    let request = BatchRequest { state: None, prompt, options, priority: 0, keep: false, returned };
    let mut texts = served.engine.generate(vec![request]).await?;
    let mut progress = TextProgress::of_prompt();
    while let Some((_, event)) = texts.recv().await {
        if let Told::Failed(why) = progress.take(event) {
            return Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why));
        }
    }
    let state = progress.state.ok_or(EngineError::Ended)?;
    Ok(ChatState { state: Arc::unwrap_or_clone(state), turns })
}

/// The pairs of a message and its answer.
fn turns(messages: &[Message]) -> Vec<ChatTurn> {
    let pair = |pair: &[Message]| {
        let is_turn = pair[0].role == "user" && pair[1].role == "assistant";
        is_turn.then(|| ChatTurn { message: pair[0].text.clone(), answer: pair[1].text.clone() })
    };
    messages.windows(2).filter_map(pair).collect()
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
