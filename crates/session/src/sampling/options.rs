//! How a token is chosen, for people.

use std::num::NonZeroUsize;
use wgoose_runtime::{Penalties, is_bias, is_penalty, is_repetition};

/// How a token is chosen. The default draws from the model's own distribution with seed 0.
///
/// In this order: penalties and biases move the logits; `top_p` and `top_k` keep tokens, then `min_p` and `typical`
/// keep some of these; the temperature acts among the tokens kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits of the tokens kept; 0 takes the likeliest token of all.
    pub temperature: f32,
    /// Keep the nucleus: the likeliest tokens whose probabilities, before the temperature, first reach this sum (and
    /// at least one). 1 keeps all.
    pub top_p: f32,
    /// Keep at most that many of the likeliest tokens.
    pub top_k: Option<NonZeroUsize>,
    /// Of these, keep the tokens whose probability, before the temperature, is at least this times that of the
    /// likeliest. 0 keeps all. Nguyen et al., arXiv 2407.01082.
    pub min_p: f32,
    /// Of the tokens that `top_p`, `top_k` and `min_p` keep, keep those whose -log p is nearest to its mean (the
    /// entropy), until their probabilities, among these tokens, reach this sum (and at least one). 1 keeps all.
    /// Locally typical sampling: Meister et al., arXiv 2202.00666.
    pub typical: f32,
    /// What tokens lose for having been chosen or seen before.
    pub penalties: Penalties,
    /// Added to the logits of tokens, minus infinity rules one out; of several for one token the last counts.
    pub bias: Vec<(u32, f32)>,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        let (penalties, bias) = (Penalties::default(), Vec::new());
        SamplerOptions { temperature: 1.0, top_p: 1.0, top_k: None, min_p: 0.0, typical: 1.0, penalties, bias, seed: 0 }
    }
}

/// Options that choose no token.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SamplerOptionsError {
    /// Negative, infinite or not a number.
    #[error("temperature {0} is not a finite number from 0 (greedy) upwards; 1 is the model's own distribution")]
    Temperature(f32),
    /// Outside the probabilities.
    #[error("top_p {0} is not between 0 and 1 (1 keeps every token)")]
    TopP(f32),
    /// Outside the probabilities.
    #[error("min_p {0} is not between 0 and 1 (0 keeps every token)")]
    MinP(f32),
    /// Outside the probabilities.
    #[error("typical {0} is not between 0 and 1 (1 keeps every token)")]
    Typical(f32),
    /// No number that logits can bear.
    #[error("{0} penalty {1} is not a number within 1e30 (0 is none)")]
    Penalty(&'static str, f32),
    /// No factor that logits can bear.
    #[error("repetition penalty {0} is not between 0.01 and 100 (1 is none)")]
    Repetition(f32),
    /// Outside 0 to 1.
    #[error("penalty decay {0} is not between 0 and 1 (1 never forgets)")]
    PenaltyDecay(f32),
    /// Neither a ban nor a number that logits can bear.
    #[error("bias {1} of token {0} is neither minus infinity (never) nor a number within 1e30")]
    Bias(u32, f32),
    /// A bias of no token.
    #[error("there is a bias for token {token}, the model has tokens below {vocab}")]
    BiasToken {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: u32,
    },
}

impl SamplerOptions {
    /// Checks all but that tokens exist.
    ///
    /// # Errors
    /// The option that is out of range.
    pub(super) fn check(&self) -> Result<(), SamplerOptionsError> {
        let Penalties { presence, frequency, repetition, decay } = self.penalties;
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(SamplerOptionsError::Temperature(self.temperature));
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return Err(SamplerOptionsError::TopP(self.top_p));
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return Err(SamplerOptionsError::MinP(self.min_p));
        }
        if !is_repetition(repetition) {
            return Err(SamplerOptionsError::Repetition(repetition));
        }
        if !(0.0..=1.0).contains(&self.typical) {
            return Err(SamplerOptionsError::Typical(self.typical));
        }
        for (name, penalty) in [("presence", presence), ("frequency", frequency)] {
            if !is_penalty(penalty) {
                return Err(SamplerOptionsError::Penalty(name, penalty));
            }
        }
        if !(0.0..=1.0).contains(&decay) {
            return Err(SamplerOptionsError::PenaltyDecay(decay));
        }
        match self.bias.iter().find(|(_, bias)| !is_bias(*bias)) {
            Some((token, bias)) => Err(SamplerOptionsError::Bias(*token, *bias)),
            None => Ok(()),
        }
    }

    /// Checks that tokens exist.
    ///
    /// # Errors
    /// The token that does not.
    pub(crate) fn check_tokens(&self, vocab: u32) -> Result<(), SamplerOptionsError> {
        match self.bias.iter().find(|(token, _)| *token >= vocab) {
            Some((token, _)) => Err(SamplerOptionsError::BiasToken { token: *token, vocab }),
            None => Ok(()),
        }
    }
}
