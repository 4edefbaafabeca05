//! Events of the sequences of a batch.

use crate::SessionError;
use crate::generate::Generated;
use crate::sampling::TokenLogprobs;
use std::sync::Arc;
use wgoose_runtime::StateData;

/// A sequence of a batch; no other sequence of that batch ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(super) u64);

impl std::fmt::Display for SequenceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An event of a sequence.
#[derive(Debug)]
pub enum BatchEvent {
    /// It was admitted; the prefix cache had that many tokens of its prompt.
    Admitted(SequenceId, usize),
    /// Log-probabilities of a token that it chose, if the request asks for them, before the text that the token
    /// completes.
    Logprobs(SequenceId, TokenLogprobs),
    /// Text that is certain by now, never empty.
    Text(SequenceId, String),
    /// Its state at the end, if the request asked for it; [`BatchEvent::Ended`] follows.
    State(SequenceId, Arc<StateData>),
    /// It has ended and left; all its text was given.
    Ended(SequenceId, Generated),
    /// No token could be chosen for it. It has left; the other sequences continue.
    Failed(SequenceId, SessionError),
}

impl BatchEvent {
    /// The sequence.
    pub fn sequence(&self) -> SequenceId {
        match self {
            BatchEvent::Admitted(id, _)
            | BatchEvent::Logprobs(id, _)
            | BatchEvent::Text(id, _)
            | BatchEvent::State(id, _)
            | BatchEvent::Ended(id, _)
            | BatchEvent::Failed(id, _) => *id,
        }
    }
}
