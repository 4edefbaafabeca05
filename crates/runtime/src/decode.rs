//! Decoding on the device: what is continued, how, and what can be wrong with it. [`Engine::decode`](crate::Engine::decode)
//! runs it.

use crate::sampling::Sampling;
use std::ops::ControlFlow;

/// Steps submitted ahead unless said otherwise: while one runs another waits, and a third is being encoded.
pub const IN_FLIGHT: usize = 3;

/// Steps submitted before the tokens of the step before are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// As many; what ran ahead is taken back if the caller breaks, to a copy of the states.
    Breakable(usize),
    /// As many, for a caller that never breaks: there is no copy.
    Unbroken(usize),
}

impl Ahead {
    /// As many, but at least one.
    pub fn steps(self) -> usize {
        let (Ahead::Breakable(steps) | Ahead::Unbroken(steps)) = self;
        steps.max(1)
    }
}

/// Most tokens at which a sequence can be told to end.
pub const MAX_STOPS: usize = 8;

/// Most tokens whose log-probabilities are listed at a step, beside that of the chosen one.
pub const MOST_LISTED: usize = wgoose_kernels::sampling::MOST_LISTED - 1;

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
    /// Tokens seen before, for the penalties, with how often they count as chosen: 1 for the last one chosen, `decay`
    /// for the one before it if it is another, and so on; 0 for those of the prompt.
    pub past: &'a [(u32, f32)],
    /// Where only some tokens are allowed: a bit per token, the lowest first, `[ceil(V / 32)]`. For one step.
    pub allowed: Option<&'a [u32]>,
    /// With every token come its log-probability and as many of the likeliest tokens, at most [`MOST_LISTED`], with
    /// theirs: by the model's own logits, before penalties, biases and masks.
    pub listed: Option<u8>,
    /// Tokens at which it ends, at most [`MAX_STOPS`]; the token itself is still given.
    pub stops: &'a [u32],
    /// Most tokens to choose.
    pub max_tokens: u32,
}

impl<'a> Continuation<'a> {
    /// Chooses up to `max_tokens` tokens, with neither bias nor past.
    pub fn new(slot: usize, sampling: Sampling, max_tokens: u32) -> Self {
        Continuation { slot, sampling, bias: &[], past: &[], allowed: None, listed: None, stops: &[], max_tokens }
    }

    /// Whether the logit of any token is adjusted.
    pub(crate) fn is_adjusted(&self) -> bool {
        self.sampling.penalties.any() || !self.bias.is_empty()
    }
}

/// A token and its log-probability.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Logprob {
    /// The token.
    pub token: u32,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenToken<'a> {
    /// The token.
    pub token: u32,
    /// If the sequence asks for log-probabilities ([`Continuation::listed`]): that of the token, then the likeliest
    /// tokens.
    pub logprobs: &'a [Logprob],
}

/// Is given the token that each sequence chose at a step, `None` for sequences that ended before; a break ends the
/// call.
pub type OnTokens<'a> = &'a mut dyn FnMut(&[Option<ChosenToken<'_>>]) -> ControlFlow<()>;

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
    /// A bias or a past of a token that there is not.
    #[error("sequence {sequence} names token {token}, the vocabulary has {vocab}")]
    Token {
        /// Index of the sequence.
        sequence: usize,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: u32,
    },
    /// A mask of another size.
    #[error("sequence {sequence} has a mask of {got} words, the vocabulary needs {words}")]
    Mask {
        /// Index of the sequence.
        sequence: usize,
        /// How many words it has.
        got: usize,
        /// How many are needed.
        words: usize,
    },
    /// A mask for more than a step.
    #[error("sequence {sequence} has a mask and {steps} steps to go: a mask is for one step")]
    MaskedSteps {
        /// Index of the sequence.
        sequence: usize,
        /// How many steps.
        steps: u32,
    },
    /// Too many log-probabilities.
    #[error("sequence {sequence} asks for {got} log-probabilities a step, at most {MOST_LISTED} are possible")]
    Listed {
        /// Index of the sequence.
        sequence: usize,
        /// How many were asked for.
        got: u8,
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
