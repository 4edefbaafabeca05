//! Messages of chats and responses, and the prompt that they make.

use super::refused::Refused;
use serde::Deserialize;
use wgoose_session::{ChatMessage, NEXT_USER, conversation, next_message};

/// The content of a message: a text, or its parts.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the content as a text or a list of parts")]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
pub(super) struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
}

impl Content {
    /// The text.
    ///
    /// # Errors
    /// A part is no text.
    pub(super) fn text(self, field: &str) -> Result<String, Refused> {
        let parts = match self {
            Content::Text(text) => return Ok(text),
            Content::Parts(parts) => parts,
        };
        let is_text = |part: &Part| ["text", "input_text", "output_text"].contains(&part.kind.as_str());
        match parts.iter().find(|part| !is_text(part)) {
            Some(part) => Err(Refused::field(field, format_args!("a part of type '{}' is no text", part.kind))),
            None => Ok(parts.iter().map(|part| part.text.as_str()).collect()),
        }
    }
}

/// The end of a prompt: the model answers.
const ANSWER: &str = "Assistant:";

/// A message.
pub(super) struct Message {
    pub(super) role: String,
    pub(super) text: String,
}

/// The text of a chat that ends with an answer, up to where the next message begins.
///
/// # Errors
/// As of [`prompt`].
pub(super) fn finished(field: &str, messages: &[Message]) -> Result<String, Refused> {
    let text = prompt(field, messages, false, false)?;
    let said = text.strip_suffix(ANSWER).unwrap_or(&text);
    Ok(said.to_owned() + NEXT_USER.trim_start())
}

/// The prompt of the next answer. `is_continued`: a state has the conversation before these messages.
///
/// # Errors
/// There is no message, a role is unknown, or a continued conversation gets anything but one message of the user.
pub(super) fn prompt(field: &str, messages: &[Message], is_continued: bool, think: bool) -> Result<String, Refused> {
    let mut said = Vec::new();
    for Message { role, text } in messages {
        said.push(match role.as_str() {
            "system" | "developer" => ChatMessage::System(text),
            "user" => ChatMessage::User(text),
            "assistant" => ChatMessage::Assistant(text),
            other => {
                let why = format_args!("role '{other}' is none of system, user, assistant");
                return Err(Refused::field(field, why));
            }
        });
    }
    match &said[..] {
        [] => Err(Refused::field(field, "nothing was said")),
        [ChatMessage::User(text)] if is_continued => Ok(next_message(text, think)),
        _ if is_continued => {
            Err(Refused::field(field, "the state has the conversation: send one new message of the user"))
        }
        _ => Ok(conversation(&said, think)),
    }
}

/// Whether a reasoning effort asks for thoughts.
///
/// # Errors
/// The effort is unknown.
pub(super) fn is_thinking(field: &str, effort: Option<&str>) -> Result<Option<bool>, Refused> {
    match effort {
        None => Ok(None),
        Some("none") => Ok(Some(false)),
        Some("minimal" | "low" | "medium" | "high" | "xhigh") => Ok(Some(true)),
        Some(other) => Err(Refused::field(field, format_args!("'{other}' is none of none, low, medium, high"))),
    }
}
