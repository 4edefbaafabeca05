//! Why a text was not evaluated.

use crate::SessionError;
use std::io;

/// Why [`evaluate`](super::evaluate) failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A model, its vocabulary or its device.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The text cannot be read.
    #[error("the text cannot be read: {0}")]
    Text(#[from] io::Error),
    /// There is nothing to predict.
    #[error("the text is empty: give at least one character")]
    Empty,
    /// The other model predicts other tokens.
    #[error("the models cannot be compared: one has logits of {ours} tokens, the other of {theirs}")]
    Rows {
        /// Vocabulary of the model.
        ours: u32,
        /// Vocabulary of the other one.
        theirs: u32,
    },
    /// The other model calls other tokens by the same ids.
    #[error("the models cannot be compared: token {token} is not the same text in their vocabularies")]
    Vocabulary {
        /// The first that differs.
        token: u32,
    },
    /// Logits are NaN or infinite.
    #[error("the {whose} logits before token {token} of the text are no numbers: check the model file and the plan")]
    NoNumbers {
        /// "model's" or "reference's".
        whose: &'static str,
        /// Index in the text.
        token: u64,
    },
}
