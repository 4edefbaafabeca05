//! `/v1/chat/completions`: answers a conversation, with the template of the RWKV-7 G1 models.

use super::Served;
use super::answer::{ChatRequest, Kind, TextRequest};
use super::fields::Fields;
use super::generation::Generation;
use super::refused::Refused;
use super::start::StateFields;
use axum::response::Response;
use serde::Deserialize;
use wgoose_session::{ChatMessage, NEXT_USER, THINKING, conversation, next_message};

/// Default of `max_tokens`.
const DEFAULT_TOKENS: usize = 2048;

/// A message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    /// Null in answers without text.
    content: Option<Content>,
    /// The template has no names of participants.
    #[serde(default, rename = "name")]
    _name: Option<String>,
    /// Parts of answers that clients send back: thoughts are no part of the conversation.
    #[serde(default, rename = "refusal")]
    _refusal: Option<String>,
    #[serde(default, rename = "reasoning_content")]
    _reasoning_content: Option<String>,
}

/// A text, or its parts.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the content as a text or a list of parts")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
}

impl Message {
    fn text(&self) -> Result<String, Refused> {
        match &self.content {
            None if self.role == "assistant" => Ok(String::new()),
            None => Err(Refused::field("messages", format_args!("a message of role '{}' has no content", self.role))),
            Some(Content::Text(text)) => Ok(text.clone()),
            Some(Content::Parts(parts)) => match parts.iter().find(|part| part.kind != "text") {
                Some(part) => {
                    Err(Refused::field("messages", format_args!("a part of type '{}' is no text", part.kind)))
                }
                None => Ok(parts.iter().map(|part| part.text.as_str()).collect()),
            },
        }
    }
}

/// The messages as text, up to the answer, and the last one; `is_continued`: a state has the conversation before them.
fn text(messages: &[Message], is_continued: bool, think: bool) -> Result<(String, String), Refused> {
    let texts = messages.iter().map(Message::text).collect::<Result<Vec<String>, _>>()?;
    let said = messages.iter().zip(&texts).map(|(message, text)| match message.role.as_str() {
        "system" | "developer" => Ok(ChatMessage::System(text)),
        "user" => Ok(ChatMessage::User(text)),
        "assistant" => Ok(ChatMessage::Assistant(text)),
        other => Err(Refused::field("messages", format_args!("role '{other}' is none of system, user, assistant"))),
    });
    let said = said.collect::<Result<Vec<_>, _>>()?;
    let last = texts.last().cloned().ok_or_else(|| Refused::field("messages", "nothing was said"))?;
    match &said[..] {
        [ChatMessage::User(message)] if is_continued => Ok((next_message(message, think), last)),
        _ if is_continued => {
            Err(Refused::field("messages", "the state has the conversation: send one new message of the user"))
        }
        _ => Ok((conversation(&said, think), last)),
    }
}

/// Arguments of chat templates, as in vLLM's interface.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateArguments {
    enable_thinking: Option<bool>,
}

/// Whether the model thinks before it answers: `reasoning_effort` other than "none", or
/// `chat_template_kwargs.enable_thinking`.
fn takes_thinking(fields: &mut Fields) -> Result<bool, Refused> {
    let effort: Option<String> = fields.take("reasoning_effort")?;
    let arguments: Option<TemplateArguments> = fields.take("chat_template_kwargs")?;
    let by_template = arguments.and_then(|arguments| arguments.enable_thinking).unwrap_or(false);
    Ok(takes_effort("reasoning_effort", effort.as_deref())?.unwrap_or(by_template))
}

/// Whether a reasoning effort asks for thoughts.
pub(super) fn takes_effort(field: &str, effort: Option<&str>) -> Result<Option<bool>, Refused> {
    match effort {
        None => Ok(None),
        Some("none") => Ok(Some(false)),
        Some("minimal" | "low" | "medium" | "high" | "xhigh") => Ok(Some(true)),
        Some(other) => Err(Refused::field(field, format_args!("'{other}' is none of none, low, medium, high"))),
    }
}

pub(super) async fn chat(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let mut generation = Generation::take(&mut fields, DEFAULT_TOKENS, served.options.max_tokens)?;
    let messages: Vec<Message> = fields.need("messages")?;
    let think = takes_thinking(&mut fields)?;
    let state = StateFields::take(&mut fields)?;
    fields.finish()?;
    generation.options.stop_strings.push(NEXT_USER.to_owned());
    let start = state.start(served, generation.count).await?;
    let (text, message) = text(&messages, !start.turns.is_empty(), think)?;
    let prompt = served.tokenizer.encode(text.as_bytes());
    if prompt.len() > served.options.max_prompt {
        let (got, most) = (prompt.len(), served.options.max_prompt);
        return Err(Refused::field("messages", format_args!("{got} tokens are more than the {most} allowed")));
    }
    let (prompts, openings) = (vec![prompt], vec![String::new()]);
    let chat = Some(ChatRequest { message, opening: if think { THINKING } else { "" } });
    TextRequest { kind: Kind::Chat, prompts, generation, openings, chat, start }.answer(served).await
}
