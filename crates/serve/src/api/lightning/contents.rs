//! `contents`: texts to continue as they are, with answers in the format of chats.

use crate::api::Served;
use crate::api::answer::{Kind, TextRequest};
use crate::api::fields::Fields;
use crate::api::generation::Generation;
use crate::api::refused::Refused;
use crate::api::start::StateFields;
use crate::api::texts::Input;
use axum::response::Response;
use wgoose_session::tokenizer::Tokenizer;

/// Default of `max_tokens`.
const DEFAULT_TOKENS: usize = 8192;

/// Default of `top_k`.
const DEFAULT_TOP_K: usize = 20;

/// Defaults of sampling.
const DEFAULTS: [(&str, f64); 5] = [
    ("temperature", 1.0),
    ("top_p", 0.3),
    ("presence_penalty", 2.0),
    ("frequency_penalty", 0.2),
    ("penalty_decay", 0.996),
];

/// Tokens of the World vocabulary that end a text by default, with their texts.
const DEFAULT_STOPS: [(u32, &[u8]); 2] = [(261, b"\n\n"), (24_281, b"User")];

pub(super) async fn complete(served: &Served, mut fields: Fields) -> Result<Response, Refused> {
    if fields.has("messages") {
        return Err(Refused::field("contents", "give either messages or contents"));
    }
    let contents: Vec<String> = fields.need("contents")?;
    set_defaults(&mut fields, &served.tokenizer);
    let generation = Generation::take(&mut fields, DEFAULT_TOKENS, served.options.max_tokens)?;
    let state = StateFields::take(&mut fields)?;
    fields.finish()?;
    let prompts = Input::Texts(contents).tokens("contents", &served.tokenizer, served.options.max_prompt)?;
    let openings = vec![String::new(); prompts.len()];
    let start = state.start(served, prompts.len() * generation.count).await?;
    TextRequest { kind: Kind::Chat, prompts, generation, openings, chat: None, start }.answer(served).await
}

/// Sets what those clients leave out because their servers have these defaults.
fn set_defaults(fields: &mut Fields, tokenizer: &Tokenizer) {
    for (name, value) in DEFAULTS {
        if !fields.has(name) {
            fields.set(name, value);
        }
    }
    if !fields.has("top_k") {
        fields.set("top_k", DEFAULT_TOP_K);
    }
    if !fields.has("stop") && !fields.has("stop_token_ids") {
        let is_stop = |(id, text): &&(u32, &[u8])| tokenizer.token(*id) == Some(*text);
        let stops: Vec<u32> = DEFAULT_STOPS.iter().filter(is_stop).map(|(id, _)| *id).collect();
        fields.set("stop_token_ids", stops);
    }
}
