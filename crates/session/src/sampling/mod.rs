//! Logits to a token: greedy, or drawn from the model's distribution, cut to its most likely or most typical tokens and
//! tempered. `wgoose_runtime` samples on a device by the same definition, with different random numbers.
//!
//! The same options, seed and logits give the same tokens on every platform: weights come from `weight`'s portable
//! exponential as integers, so that no sum depends on an order or a maths library; randomness is xoshiro256++ (crate
//! `rand_xoshiro`: its output is specified, it is small and it needs nothing but `rand_core`).

mod counts;
mod logprobs;
mod nucleus;
mod options;
mod weight;

pub(crate) use counts::Counts;
pub use logprobs::TokenLogprobs;
use nucleus::Candidate;
pub use options::{SamplerOptions, SamplerOptionsError};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
pub use wgoose_runtime::Penalties;

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
    chosen: Counts,
    /// Kept between calls for its memory only.
    moved: Vec<f32>,
    /// Kept between calls for its memory only.
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler at the beginning of its random numbers.
    ///
    /// # Errors
    /// The option that is out of range.
    pub fn new(options: SamplerOptions) -> Result<Self, SamplerOptionsError> {
        options.check()?;
        let random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let chosen = Counts::new(options.penalties);
        Ok(Sampler { options, random, chosen, moved: Vec::new(), candidates: Vec::new() })
    }

    /// Notes the tokens of the prompt, which the repetition penalty concerns.
    pub fn see(&mut self, prompt: &[u32]) {
        self.chosen.see(prompt);
    }

    /// The options it was made with.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// The next token for `logits`, one per id; minus infinity rules a token out. One random number is used per call,
    /// none at temperature 0. The token is counted for the penalties of the next. Biases of tokens beyond the logits mean
    /// nothing.
    ///
    /// As in the reference sampler (`sample_logits` of the PyPI package `rwkv`), `top_p` and `top_k` look at the
    /// model's own probabilities; the temperature then acts among the tokens kept.
    ///
    /// # Errors
    /// A logit is NaN or plus infinity, or there is no token to choose; no random number is used then.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        let mut best = greedy(logits)?;
        let mut moved = std::mem::take(&mut self.moved);
        let moves = self.options.penalties.any() || !self.options.bias.is_empty();
        if moves {
            self.move_logits(logits, &mut moved);
            best = greedy(&moved)?;
        }
        let token =
            if self.options.temperature == 0.0 { best } else { self.draw(if moves { &moved } else { logits }, best) };
        self.moved = moved;
        self.chosen.push(token);
        Ok(token)
    }

    /// Penalises and biases.
    fn move_logits(&self, logits: &[f32], moved: &mut Vec<f32>) {
        moved.clear();
        moved.extend_from_slice(logits);
        self.chosen.penalise(moved);
        let unbiased = |token: &u32| moved.get(*token as usize).copied();
        let biased: Vec<(u32, f32)> =
            self.options.bias.iter().filter_map(|(token, bias)| Some((*token, unbiased(token)? + bias))).collect();
        biased.into_iter().for_each(|(token, logit)| moved[token as usize] = logit);
    }

    /// Draws a token; `best` has the largest logit.
    fn draw(&mut self, logits: &[f32], best: u32) -> u32 {
        let max = logits[best as usize];
        nucleus::select(&mut self.candidates, logits, max, self.options.top_p, self.options.top_k);
        if self.options.min_p > 0.0 {
            nucleus::keep_likely(&mut self.candidates, max, self.options.min_p);
        }
        if self.options.typical < 1.0 {
            nucleus::keep_typical(&mut self.candidates, max, self.options.typical);
        }
        // The best may not be typical.
        let max = self.candidates.iter().map(|c| c.logit).fold(f32::MIN, f32::max);
        let temperature = f64::from(self.options.temperature);
        let tempered = |c: &Candidate| weight::weight((f64::from(c.logit) - f64::from(max)) / temperature);
        let total: u64 = self.candidates.iter().map(tempered).sum();
        // A point in 0..total; its bias is below 2^-64.
        let mut point = ((u128::from(self.random.next_u64()) * u128::from(total)) >> 64) as u64;
        for candidate in &self.candidates {
            match point.checked_sub(tempered(candidate)) {
                Some(rest) => point = rest,
                None => return candidate.id,
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
