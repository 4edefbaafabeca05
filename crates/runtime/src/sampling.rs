//! How the tokens of a sequence are chosen, for people.

use std::num::NonZeroU32;

/// How a sequence's tokens are chosen. The default draws from the model's own distribution with seed 0.
///
/// The same settings, plan and device give the same tokens, whatever other sequences are decoded beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the scores of the tokens that the other settings keep; 0 takes the likeliest token, of equal ones the
    /// lowest.
    pub temperature: f32,
    /// Keep the likeliest tokens whose probabilities, before the temperature, first reach this sum (and at least one).
    /// 1 keeps all.
    pub top_p: f32,
    /// Keep at most that many of the likeliest tokens.
    pub top_k: Option<NonZeroU32>,
    /// Of these, keep the tokens whose probability is at least this times that of the likeliest. 0 keeps all. Nguyen
    /// et al., arXiv 2407.01082, before the temperature.
    pub min_p: f32,
    /// Of the tokens that `top_p`, `top_k` and `min_p` keep, keep those whose -log p is nearest to its mean (the
    /// entropy), until their probabilities, among these tokens, reach this sum (and at least one). 1 keeps all.
    /// Locally typical sampling: Meister et al., arXiv 2202.00666.
    pub typical: f32,
    /// Applied to the logits before all else.
    pub penalties: Penalties,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Tells sequences with the same seed apart.
    pub stream: u32,
    /// How many tokens were drawn before, with this seed and stream.
    pub drawn: u32,
}

impl Sampling {
    /// The likeliest token.
    pub const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: None,
        min_p: 0.0,
        typical: 1.0,
        penalties: Penalties::NONE,
        seed: 0,
        stream: 0,
        drawn: 0,
    };
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 1.0, ..Sampling::GREEDY }
    }
}

/// What a token loses for having been chosen or seen before. The default is nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Subtracted from its logit, while "how often" it was chosen is above 0.
    pub presence: f32,
    /// Subtracted from its logit as often as it was chosen.
    pub frequency: f32,
    /// Divides the logits above 0 of tokens seen before, in the prompt or chosen, and multiplies the others; before all
    /// else. 1 changes nothing. Keskar et al., arXiv 1909.05858, in the form that keeps the sign's meaning.
    pub repetition: f32,
    /// What becomes of "how often" with every token chosen after it: 1 keeps it, 0.996 forgets slowly.
    pub decay: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Penalties::NONE
    }
}

impl Penalties {
    /// None.
    pub const NONE: Penalties = Penalties { presence: 0.0, frequency: 0.0, repetition: 1.0, decay: 1.0 };

    /// Whether they change anything.
    pub fn any(&self) -> bool {
        self.presence != 0.0 || self.frequency != 0.0 || self.repetition != 1.0
    }
}

/// Whether that may be added to a logit: no sum overflows.
pub fn is_bias(bias: f32) -> bool {
    bias == f32::NEG_INFINITY || is_penalty(bias)
}

/// Whether that may divide and multiply logits: nothing overflows.
pub fn is_repetition(penalty: f32) -> bool {
    (0.01..=100.0).contains(&penalty)
}

/// Whether that may be taken from a logit, a few times over: nothing overflows.
pub fn is_penalty(penalty: f32) -> bool {
    penalty.abs() <= 1e30
}
