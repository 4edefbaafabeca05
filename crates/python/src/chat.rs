//! The chat format of the RWKV-7 G1 models.

use crate::error::InputError;
use pyo3::prelude::*;
use wgoose_session::{ChatMessage, conversation};

/// The text of a conversation as the RWKV-7 G1 models know it, up to where the model answers, as `wgoose chat` has it.
///
/// messages: pairs of a role ('system', 'user' or 'assistant') and a text. think: have the model think before it answers.
/// An answer ends before "\n\nUser:".
///
/// Raises InputError where a role is none of these.
#[pyfunction]
#[pyo3(signature = (messages, think=false))]
#[allow(clippy::needless_pass_by_value)] // as it comes from Python
pub(crate) fn chat_prompt(messages: Vec<(String, String)>, think: bool) -> PyResult<String> {
    let said = messages.iter().map(|(role, text)| match role.as_str() {
        "system" => Ok(ChatMessage::System(text)),
        "user" => Ok(ChatMessage::User(text)),
        "assistant" => Ok(ChatMessage::Assistant(text)),
        other => Err(InputError::new_err(format!("role '{other}' is none of system, user, assistant"))),
    });
    Ok(conversation(&said.collect::<PyResult<Vec<_>>>()?, think))
}
