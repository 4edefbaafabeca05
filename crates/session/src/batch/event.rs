//! Events of the sequences of a batch.

use crate::generate::Generated;

/// A sequence of a batch; no other sequence of that batch ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(super) u64);

impl std::fmt::Display for SequenceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What happened to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    /// Text that is certain by now, never empty.
    Text(SequenceId, String),
    /// It has ended and left; all its text was given.
    Ended(SequenceId, Generated),
}

impl BatchEvent {
    /// Whom it is about.
    pub fn sequence(&self) -> SequenceId {
        match self {
            BatchEvent::Text(id, _) | BatchEvent::Ended(id, _) => *id,
        }
    }
}
