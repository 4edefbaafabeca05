//! One sequence of a batch.

use super::request::{BatchRequest, StateEnd};
use crate::generate::{GenerateOptions, Generated, Text};
use crate::grammar::{Grammar, Matcher};
use crate::sampling::{Counts, Sampler};
use crate::tokenizer::Tokenizer;
use std::sync::Arc;
use wgoose_runtime::StateData;

/// One sequence, and how it stands.
pub(super) struct BatchSequence {
    /// Slot of its state; none while it is queued.
    pub(super) slot: Option<usize>,
    pub(super) options: Arc<GenerateOptions>,
    pub(super) priority: i32,
    pub(super) keep: bool,
    pub(super) returned: Option<StateEnd>,
    /// The state to start from; `None` for that of the batch.
    pub(super) state: Option<Arc<StateData>>,
    prompt_tokens: usize,
    /// The prompt, then the chosen tokens.
    tokens: Vec<u32>,
    /// Number of them that the state contains.
    prefilled: usize,
    text: Text,
    /// Samples its tokens where the device does not.
    pub(super) sampler: Sampler,
    /// Tokens of its past, for penalties on the device.
    past: Counts,
    /// Its place in its grammar, if it has one.
    pub(super) matcher: Option<Matcher>,
}

impl BatchSequence {
    pub(super) fn new(request: BatchRequest, mut sampler: Sampler) -> Self {
        let BatchRequest { state, prompt, options, priority, keep, returned } = request;
        let (text, past) = (Text::new(&options), Counts::after(options.sampling.penalties, &prompt));
        sampler.see(&prompt);
        let matcher = options.grammar.as_ref().map(Grammar::matcher);
        BatchSequence {
            slot: None,
            options: Arc::new(options),
            priority,
            keep,
            returned,
            state,
            prompt_tokens: prompt.len(),
            tokens: prompt,
            prefilled: 0,
            text,
            sampler,
            past,
            matcher,
        }
    }

    /// All tokens but the last one: that is the input of its next decode step.
    pub(super) fn to_prefill(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// The next tokens to prefill, at most `most`.
    pub(super) fn next(&self, most: usize) -> &[u32] {
        let unread = &self.to_prefill()[self.prefilled..];
        &unread[..unread.len().min(most)]
    }

    /// Number of tokens left to prefill.
    pub(super) fn unread(&self) -> usize {
        self.to_prefill().len() - self.prefilled
    }

    /// Sets how many of its first tokens the state contains.
    pub(super) fn set_prefilled(&mut self, tokens: usize) {
        self.prefilled = tokens;
    }

    /// The tokens that the state contains.
    pub(super) fn prefilled(&self) -> &[u32] {
        &self.tokens[..self.prefilled]
    }

    /// The input of its next decode step.
    pub(super) fn last(&self) -> u32 {
        self.tokens[self.tokens.len() - 1]
    }

    /// Appends the token that a decode step chose; returns the text that it completes, which may be none. `None`: the
    /// token is no part of the text.
    pub(super) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Option<String> {
        if self.has_ended() {
            return None;
        }
        self.prefilled = self.tokens.len();
        let piece = self.text.push(tokenizer, token)?;
        self.tokens.push(token);
        self.past.push(token);
        if let Some(matcher) = self.matcher.as_mut().filter(|_| !self.text.has_ended()) {
            // An error: the next mask has it.
            let _ = matcher.push(token);
        }
        Some(piece)
    }

    /// Tokens of its past, for penalties.
    pub(super) fn past(&self) -> Vec<(u32, f32)> {
        self.past.list()
    }

    /// Number of chosen tokens.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Number of tokens until `max_tokens`.
    pub(super) fn left(&self) -> usize {
        self.text.left()
    }

    /// Whether its text has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.text.has_ended()
    }

    /// The text held back for stop strings, and the result.
    pub(super) fn finish(self) -> (String, Generated) {
        self.text.finish(self.prompt_tokens)
    }
}
