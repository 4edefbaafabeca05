//! Scenarios: the uses of a model that a comparison times.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Passes of a model as people run them, by the loop in which they run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Tokens that each sequence reads in one pass: 1 is decode, timed a step of `Engine::decode`; more is the reading
    /// of a prompt, timed until its last logits are in memory.
    pub tokens: u32,
    /// Sequences that are given them in one batch.
    pub sequences: u32,
    /// Whether the time begins with the process, and ends with the first token: what a user waits for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub from_start: bool,
}

fn is_false(from_start: &bool) -> bool {
    !from_start
}

impl Scenario {
    /// One token, as in generation.
    pub const DECODE: Scenario = Scenario { tokens: 1, sequences: 1, from_start: false };

    /// The reading of a prompt.
    pub const fn prefill(tokens: u32) -> Scenario {
        Scenario { tokens, sequences: 1, from_start: false }
    }

    /// One token of each of several sequences.
    pub const fn batch(sequences: u32) -> Scenario {
        Scenario { tokens: 1, sequences, from_start: false }
    }

    /// `decode`, `batched decode`, `prefill` or `first token`.
    pub fn name(self) -> &'static str {
        match self {
            Scenario { from_start: true, .. } => "first token",
            Scenario { tokens: 1, sequences: 1, .. } => "decode",
            Scenario { tokens: 1, .. } => "batched decode",
            _ => "prefill",
        }
    }
}

impl fmt::Display for Scenario {
    /// `decode`, `batched decode of 8`, `prefill of 512` or `first token after 32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scenario { from_start: true, tokens, .. } => write!(f, "{} after {tokens}", self.name()),
            Scenario { tokens: 1, sequences: 1, .. } => f.write_str(self.name()),
            Scenario { tokens: 1, sequences, .. } => write!(f, "{} of {sequences}", self.name()),
            Scenario { tokens, sequences: 1, .. } => write!(f, "{} of {tokens}", self.name()),
            Scenario { tokens, sequences, .. } => write!(f, "{} of {sequences} x {tokens}", self.name()),
        }
    }
}
