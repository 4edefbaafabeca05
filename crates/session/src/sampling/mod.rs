//! Logits to a token: greedy, or drawn from the model's distribution, cut to its likeliest tokens and tempered.
//!
//! The same options, seed and logits give the same tokens on every platform: weights come from [`weight`]'s portable
//! exponential as integers, so that no sum depends on an order or a maths library; randomness is xoshiro256++ (crate
//! `rand_xoshiro`: its output is specified, it is small and it needs nothing but `rand_core`).

mod nucleus;
mod weight;

use nucleus::Candidate;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::num::NonZeroUsize;

/// How a token is chosen. The default draws from the model's own distribution with seed 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits of the tokens that `top_p` and `top_k` keep; 0 takes the likeliest token.
    pub temperature: f32,
    /// Keep the nucleus: the likeliest tokens whose probabilities, before the temperature, first reach this sum (and
    /// at least one). 1 keeps all.
    pub top_p: f32,
    /// Keep at most that many of the likeliest tokens.
    pub top_k: Option<NonZeroUsize>,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        SamplerOptions { temperature: 1.0, top_p: 1.0, top_k: None, seed: 0 }
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
}

/// Logits that name no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// No logits.
    #[error("there are no logits to choose from")]
    Empty,
    /// More logits than any vocabulary.
    #[error("{0} logits are more than any vocabulary has (at most {limit})", limit = weight::MAX_LOGITS)]
    TooMany(usize),
    /// The model broke down.
    #[error("the logit of token {0} is not a number: the model's arithmetic broke down")]
    NotANumber(u32),
    /// The model overflowed.
    #[error("the logit of token {0} is infinite: the model's arithmetic overflowed")]
    Infinite(u32),
    /// Every logit is minus infinity.
    #[error("every token is ruled out: all logits are minus infinity")]
    AllRuledOut,
}

/// Chooses tokens, one after the other, with a random state of its own.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplerOptions,
    random: Xoshiro256PlusPlus,
    /// Kept between calls for its memory only.
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler at the beginning of its random numbers.
    ///
    /// # Errors
    /// The option that is out of range.
    pub fn new(options: SamplerOptions) -> Result<Self, SamplerOptionsError> {
        if !(options.temperature.is_finite() && options.temperature >= 0.0) {
            return Err(SamplerOptionsError::Temperature(options.temperature));
        }
        if !(0.0..=1.0).contains(&options.top_p) {
            return Err(SamplerOptionsError::TopP(options.top_p));
        }
        let random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        Ok(Sampler { options, random, candidates: Vec::new() })
    }

    /// The options it was made with.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// The next token for `logits`, one per id; minus infinity rules a token out. One random number is used per call,
    /// none at temperature 0.
    ///
    /// As in the reference sampler (`sample_logits` of the PyPI package `rwkv`), `top_p` and `top_k` look at the
    /// model's own probabilities; the temperature then acts among the tokens kept.
    ///
    /// # Errors
    /// A logit is NaN or plus infinity, or there is no token to choose; no random number is used then.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        let best = greedy(logits)?;
        if self.options.temperature == 0.0 {
            return Ok(best);
        }
        let max = logits[best as usize];
        nucleus::select(&mut self.candidates, logits, max, self.options.top_p, self.options.top_k);

        let temperature = f64::from(self.options.temperature);
        let tempered = |c: &Candidate| weight::weight((f64::from(c.logit) - f64::from(max)) / temperature);
        let total: u64 = self.candidates.iter().map(tempered).sum();
        // A point in 0..total; its bias is below 2^-64.
        let mut point = ((u128::from(self.random.next_u64()) * u128::from(total)) >> 64) as u64;
        for candidate in &self.candidates {
            match point.checked_sub(tempered(candidate)) {
                Some(rest) => point = rest,
                None => return Ok(candidate.id),
            }
        }
        unreachable!("the point lies below the sum of all weights")
    }
}

/// The token with the largest logit; of equal ones the lowest id.
///
/// # Errors
/// A logit is NaN or plus infinity, or there is no token to choose.
pub fn greedy(logits: &[f32]) -> Result<u32, SampleError> {
    if logits.len() > weight::MAX_LOGITS {
        return Err(SampleError::TooMany(logits.len()));
    }
    let (mut best, mut max) = (None, f32::NEG_INFINITY);
    for (&logit, id) in logits.iter().zip(0..) {
        if logit.is_nan() {
            return Err(SampleError::NotANumber(id));
        }
        if logit > max {
            (best, max) = (Some(id), logit);
        }
    }
    match best {
        Some(id) if max == f32::INFINITY => Err(SampleError::Infinite(id)),
        Some(id) => Ok(id),
        None if logits.is_empty() => Err(SampleError::Empty),
        None => Err(SampleError::AllRuledOut),
    }
}
