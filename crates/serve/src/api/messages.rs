//! Messages of chats and responses, and the prompt that they make.

use super::refused::Refused;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use wgoose_session::tools::{ToolCall, call_text, results_text};
use wgoose_session::{ChatFormat, ChatMessage};

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

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) text: String,
}

/// The text of a chat that ends with an answer, up to where the next message begins.
///
/// # Errors
/// As of [`prompt`].
pub(super) fn finished(format: &ChatFormat, field: &str, messages: &[Message]) -> Result<String, Refused> {
    let next = Message { role: "user".to_owned(), text: ".".to_owned() };
    let whole = prompt(format, field, &[messages, std::slice::from_ref(&next)].concat(), None, (false, false))?;
    let after = prompt(format, field, &[next], None, (true, false))?;
    whole
        .strip_suffix(&after)
        .map(str::to_owned)
        .ok_or_else(|| Refused::field(field, "the chat template drops messages"))
}

/// A call of an earlier answer, as clients send it back.
#[derive(Deserialize)]
pub(super) struct SentCall {
    id: String,
    function: SentFunction,
}

#[derive(Deserialize)]
struct SentFunction {
    name: String,
    arguments: String,
}

impl SentCall {
    pub(super) fn new(id: String, name: String, arguments: String) -> Self {
        SentCall { id, function: SentFunction { name, arguments } }
    }
}

/// Messages in the order of a conversation. Results of calls become one message of the user, in the order of the calls.
pub(super) struct Conversation {
    field: &'static str,
    messages: Vec<Message>,
    /// The last answer, if it may have more calls.
    answer: Option<SentAnswer>,
    /// Ids of the calls of that answer.
    ids: Vec<String>,
    /// Results by the place of their call.
    results: BTreeMap<usize, String>,
}

struct SentAnswer {
    text: String,
    calls: Vec<ToolCall>,
}

impl Conversation {
    /// An empty one; `field` is where its messages come from.
    pub(super) fn new(field: &'static str) -> Self {
        Conversation { field, messages: Vec::new(), answer: None, ids: Vec::new(), results: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, message: Message) {
        self.end_turn();
        self.ids.clear();
        self.messages.push(message);
    }

    /// Adds an answer, or calls to the last one.
    pub(super) fn add_answer(&mut self, text: String, sent: Vec<SentCall>) {
        let is_more = text.is_empty() && self.answer.is_some() && self.results.is_empty();
        if !is_more {
            self.end_turn();
            self.ids.clear();
        }
        let answer = self.answer.get_or_insert(SentAnswer { text, calls: Vec::new() });
        for SentCall { id, function: SentFunction { name, arguments } } in sent {
            self.ids.push(id);
            answer.calls.push(ToolCall { name, arguments });
        }
    }

    /// Adds the result of a call.
    ///
    /// # Errors
    /// The last answer has no such call. Calls of a state's conversation are not known.
    pub(super) fn add_result(&mut self, id: Option<&str>, text: String) -> Result<(), Refused> {
        let Some(id) = id else { return Err(Refused::field(self.field, "a result names no call")) };
        let place = match self.ids.iter().position(|known| known == id) {
            Some(place) => place,
            None if self.ids.is_empty() && self.messages.iter().all(|message| message.role == "system") => {
                self.results.len()
            }
            None => return Err(Refused::field(self.field, format_args!("the answer before has no call '{id}'"))),
        };
        self.results.insert(place, text);
        Ok(())
    }

    fn end_turn(&mut self) {
        if let Some(SentAnswer { text, calls }) = self.answer.take() {
            let text = if calls.is_empty() { text } else { call_text(&text, &calls) };
            self.messages.push(Message { role: "assistant".to_owned(), text });
        }
        if !self.results.is_empty() {
            let text = results_text(self.results.values().map(String::as_str));
            self.messages.push(Message { role: "user".to_owned(), text });
            self.results.clear();
        }
    }

    pub(super) fn messages(mut self) -> Vec<Message> {
        self.end_turn();
        self.messages
    }
}

/// The prompt of the next answer. `is_continued`: a state has the conversation before these messages. `tools`: those
/// that the format tells of.
///
/// # Errors
/// There is no message, a role is unknown, the template refuses the conversation, or a continued conversation gets
/// anything but one message of the user.
pub(super) fn prompt(
    format: &ChatFormat,
    field: &str,
    messages: &[Message],
    tools: Option<&Value>,
    (is_continued, think): (bool, bool),
) -> Result<String, Refused> {
    let mut said = Vec::new();
    for Message { role, text } in messages {
        said.push(match role.as_str() {
            "system" | "developer" => ChatMessage::System(text),
            "user" => ChatMessage::User(text),
            "assistant" => ChatMessage::Assistant(text),
            other => {
                let why = format_args!("role '{other}' is none of system, user, assistant, tool");
                return Err(Refused::field(field, why));
            }
        });
    }
    match &said[..] {
        [] => Err(Refused::field(field, "nothing was said")),
        [ChatMessage::User(text)] if is_continued => {
            format.next_message(text, tools, think).map_err(|why| Refused::field(field, why))
        }
        _ if is_continued => {
            Err(Refused::field(field, "the state has the conversation: send one new message of the user"))
        }
        _ => format.conversation(&said, tools, think).map_err(|why| Refused::field(field, why)),
    }
}

/// Whether the model thinks when it begins behind that end of a prompt.
pub(super) fn begins_thinking(opening: &str) -> bool {
    opening.rfind("<think").is_some_and(|at| !opening[at..].contains("</think>"))
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
