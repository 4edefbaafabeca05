//! Decoding on the device: what is continued, how, and what can be wrong with it. [`Engine::decode`](crate::Engine::decode)
//! runs it.

use crate::sampling::Sampling;

/// Steps submitted ahead unless said otherwise: while one runs another waits, and a third is being encoded.
pub const IN_FLIGHT: usize = 3;

/// Most tokens at which a sequence can be told to end.
pub const MAX_STOPS: usize = 8;

/// Where all sequences of a call begin.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// With these logits, `[B, V]` row major, of what each has read: the first token is drawn from them.
    Logits(&'a [f32]),
    /// With those that [`Engine::read`](crate::Engine::read) has left on the device, of the one sequence that is continued:
    /// they never come back.
    Kept,
    /// With a token each, `[B]`, that is read first.
    Tokens(&'a [u32]),
}

impl Start<'_> {
    /// Whether the first tokens are drawn before anything is read.
    pub(crate) fn has_logits(&self) -> bool {
        matches!(self, Start::Logits(_) | Start::Kept)
    }
}

/// One sequence to be continued.
#[derive(Clone, Copy, Debug)]
pub struct Continuation<'a> {
    /// Whose state it reads and updates.
    pub slot: usize,
    /// How its tokens are chosen.
    pub sampling: Sampling,
    /// Added to the logits of tokens, minus infinity rules one out; of several for one token the last counts.
    pub bias: &'a [(u32, f32)],
    /// How often tokens count as chosen before, for the penalties: 1 for the last one, `decay` for the one before it if
    /// it is another, and so on.
    pub chosen: &'a [(u32, f32)],
    /// Tokens at which it ends, at most [`MAX_STOPS`]; the token itself is still given.
    pub stops: &'a [u32],
    /// Most tokens to choose.
    pub max_tokens: u32,
}

/// What decoding took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecodeReport {
    /// Tokens that each sequence was given at most.
    pub rounds: u64,
    /// Steps that were run a second time, to take back what had run ahead.
    pub repeated: u64,
    /// Seconds in which steps were encoded, all together; that they are submitted is not counted.
    pub encode_seconds: f64,
    /// Steps that ran in their persistent form.
    pub persistent: u64,
    /// Whether a wait of the persistent kernel timed out: its step was rolled back, and the rest ran as one dispatch per op.
    pub timed_out: bool,
}

/// Why sequences cannot be continued on the device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The executor has no device, its weights take turns there, or it binds no state more than the sequences have.
    #[error("tokens are chosen on a device only where it holds all weights and one more state: sample from logits")]
    Unsupported,
    /// Nothing to continue.
    #[error("there are no sequences to continue")]
    NoSequences,
    /// Logits or tokens of another number of sequences.
    #[error("{got} {what} were given to start with, {want} are needed")]
    Start {
        /// Of what.
        what: &'static str,
        /// How many were given.
        got: usize,
        /// How many are needed.
        want: usize,
    },
    /// No logits of that sequence stay on the device.
    #[error("no logits of sequence 0 stay on the device, or others are to be continued with it: read its prompt first")]
    NotKept,
    /// Too many stop tokens.
    #[error("sequence {sequence} ends at any of {got} tokens, at most {MAX_STOPS} are possible")]
    Stops {
        /// Index of the sequence.
        sequence: usize,
        /// How many were given.
        got: usize,
    },
    /// A bias or a count of a token that there is not.
    #[error("sequence {sequence} has a bias for token {token}, the vocabulary has {vocab}")]
    Token {
        /// Index of the sequence.
        sequence: usize,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// A setting that chooses no token.
    #[error("{setting} {value} of sequence {sequence} is not {allowed}")]
    Setting {
        /// Index of the sequence.
        sequence: usize,
        /// Which.
        setting: &'static str,
        /// Its value.
        value: f32,
        /// What it could be.
        allowed: &'static str,
    },
    /// The model broke down.
    #[error("sequence {sequence} has no next token: {why}")]
    NoToken {
        /// Index of the sequence.
        sequence: usize,
        /// What its logits are.
        why: &'static str,
    },
}
