//! A request to a batch.

use crate::generate::GenerateOptions;

/// A sequence for a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRequest {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// How to continue it.
    pub options: GenerateOptions,
    /// The queue admits the highest priority first, and equal ones in the order in which they joined.
    pub priority: i32,
    /// Whether the prefix cache, if the session has one, stores the state at the end: for conversations.
    pub keep: bool,
}

impl BatchRequest {
    /// A request of priority 0 whose state is not cached.
    pub fn new(prompt: Vec<u32>, options: GenerateOptions) -> Self {
        BatchRequest { prompt, options, priority: 0, keep: false }
    }
}
