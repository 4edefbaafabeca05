//! A request to a batch.

use crate::generate::GenerateOptions;
use std::sync::Arc;
use wgoose_runtime::StateData;

/// A sequence for a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRequest {
    /// The state to start from; `None` for that of the batch.
    pub state: Option<Arc<StateData>>,
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// How to continue it.
    pub options: GenerateOptions,
    /// The queue admits the highest priority first, and equal ones in the order in which they joined.
    pub priority: i32,
    /// Whether the prefix cache, if the session has one, stores the state at the end: for conversations.
    pub keep: bool,
    /// Whether [`BatchEvent::State`](crate::BatchEvent::State) returns the state, and at which position.
    pub returned: Option<StateEnd>,
}

/// The position at which a state is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateEnd {
    /// After all tokens of the text.
    Text,
    /// Where the next message of a chat begins, after this text behind the answer:
    /// [`ChatFormat::next`](crate::ChatFormat::next).
    NextMessage(Arc<str>),
}

impl BatchRequest {
    /// A request of priority 0 from the state of the batch, whose state is neither cached nor returned.
    pub fn new(prompt: Vec<u32>, options: GenerateOptions) -> Self {
        BatchRequest { state: None, prompt, options, priority: 0, keep: false, returned: None }
    }
}
