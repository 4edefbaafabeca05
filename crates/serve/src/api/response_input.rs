//! The input of responses: messages, calls and their results.

use super::messages::{Content, Conversation, Message, SentCall};
use super::refused::Refused;
use serde::Deserialize;

/// The field of the messages.
pub(super) const FIELD: &str = "input";

/// The input: a message of the user, or a list of messages.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of messages")]
pub(super) enum Input {
    Text(String),
    Items(Vec<Item>),
}

#[derive(Deserialize)]
pub(super) struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    /// Of calls and their results.
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
}

impl Input {
    /// The messages.
    ///
    /// # Errors
    /// An item makes no sense.
    pub(super) fn messages(self) -> Result<Vec<Message>, Refused> {
        let items = match self {
            Input::Text(text) => return Ok(vec![Message { role: "user".to_owned(), text }]),
            Input::Items(items) => items,
        };
        let mut conversation = Conversation::new(FIELD);
        items.into_iter().try_for_each(|item| item.add_to(&mut conversation))?;
        Ok(conversation.messages())
    }
}

impl Item {
    fn add_to(self, conversation: &mut Conversation) -> Result<(), Refused> {
        let wrong = |why: &str| Refused::field(FIELD, why);
        match self.kind.as_deref() {
            None | Some("message") => {
                let content = self.content.ok_or_else(|| wrong("a message has no content"))?;
                let (role, text) = (self.role.unwrap_or_else(|| "user".to_owned()), content.text(FIELD)?);
                match role.as_str() {
                    "assistant" => conversation.add_answer(text, Vec::new()),
                    _ => conversation.add(Message { role, text }),
                }
                Ok(())
            }
            // Thoughts are no part of the conversation.
            Some("reasoning") => Ok(()),
            Some("function_call") => match (self.call_id, self.name, self.arguments) {
                (Some(id), Some(name), Some(arguments)) => {
                    conversation.add_answer(String::new(), vec![SentCall::new(id, name, arguments)]);
                    Ok(())
                }
                _ => Err(wrong("a function_call needs call_id, name and arguments")),
            },
            Some("function_call_output") => {
                let output = self.output.ok_or_else(|| wrong("a function_call_output has no output"))?;
                conversation.add_result(self.call_id.as_deref(), output.text(FIELD)?)
            }
            Some(other) => Err(wrong(&format!("an item of type '{other}' is not supported"))),
        }
    }
}
