//! How text is generated, as it comes from Python.

use crate::error::InputError;
use crate::grammar::Grammar;
use crate::input;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use wgoose_session::GenerateOptions;
use wgoose_session::sampling::{Penalties, SamplerOptions};

/// The options of `generate` and `create_completion`, by their names in Python.
pub(crate) struct Sampling<'a, 'py> {
    pub(crate) max_tokens: Option<usize>,
    pub(crate) temperature: f32,
    pub(crate) top_p: f32,
    pub(crate) top_k: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) stop: Option<&'a Bound<'py, PyAny>>,
    pub(crate) presence_penalty: f32,
    pub(crate) frequency_penalty: f32,
    pub(crate) penalty_decay: f32,
    pub(crate) repetition_penalty: f32,
    pub(crate) min_p: f32,
    pub(crate) typical: f32,
    pub(crate) logit_bias: Option<BTreeMap<u32, f32>>,
    pub(crate) stop_tokens: Option<Vec<u32>>,
    pub(crate) grammar: Option<&'a Grammar>,
}

impl Sampling<'_, '_> {
    /// The options for a model with so many tokens.
    pub(crate) fn options(self, vocab: u32) -> PyResult<GenerateOptions> {
        let mut stop_tokens = GenerateOptions::default().stop_tokens;
        stop_tokens.extend(self.stop_tokens.unwrap_or_default());
        if let Some(token) = stop_tokens.iter().find(|token| **token >= vocab) {
            return Err(InputError::new_err(format!("stop token {token}: the model has tokens below {vocab}")));
        }
        let (presence, frequency, decay) = (self.presence_penalty, self.frequency_penalty, self.penalty_decay);
        let penalties = Penalties { presence, frequency, repetition: self.repetition_penalty, decay };
        let sampling = SamplerOptions {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: NonZeroUsize::new(self.top_k),
            min_p: self.min_p,
            typical: self.typical,
            penalties,
            bias: self.logit_bias.unwrap_or_default().into_iter().collect(),
            seed: self.seed.unwrap_or_else(any_seed),
        };
        let grammar = self.grammar.map(|grammar| grammar.0.clone());
        let (max_tokens, stop_strings) = (self.max_tokens.unwrap_or(usize::MAX), input::stops(self.stop)?);
        Ok(GenerateOptions { sampling, max_tokens, stop_tokens, stop_strings, logprobs: None, grammar })
    }
}

/// A seed where none is given: std's own randomness.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0)
}
