//! One sequence of a batch.

use super::event::{BatchEvent, SequenceId};
use crate::generate::{GenerateOptions, Generated, Text, continuation};
use crate::sampling::{Counts, Sampler};
use crate::tokenizer::Tokenizer;
use wgoose_runtime::Continuation;

/// One sequence, and how it stands.
pub(super) struct BatchSequence {
    pub(super) slot: usize,
    prompt_tokens: usize,
    options: GenerateOptions,
    text: Text,
    /// Chooses its tokens, where the device does not.
    pub(super) sampler: Sampler,
    /// What it has chosen, for the device.
    counts: Counts,
    /// Chosen last, not read yet.
    last: u32,
}

impl BatchSequence {
    /// A sequence whose prompt has that many tokens.
    pub(super) fn new(slot: usize, prompt_tokens: usize, options: GenerateOptions, sampler: Sampler) -> Self {
        let (text, counts) = (Text::new(&options), Counts::new(options.sampling.penalties));
        BatchSequence { slot, prompt_tokens, options, text, sampler, counts, last: 0 }
    }

    /// Appends a token and tells of its text, unless it has ended.
    pub(super) fn push(&mut self, id: SequenceId, tokenizer: &Tokenizer, token: u32, events: &mut Vec<BatchEvent>) {
        if let Some(piece) = self.text.push(tokenizer, token) {
            self.last = token;
            self.counts.push(token);
            events.extend((!piece.is_empty()).then_some(BatchEvent::Text(id, piece)));
        }
    }

    /// The token that it reads next.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// What it has chosen so far, for penalties.
    pub(super) fn chosen(&self) -> Vec<(u32, f32)> {
        self.counts.list()
    }

    /// How a device goes on with it for that many tokens at most.
    pub(super) fn continuation<'a>(&'a self, chosen: &'a [(u32, f32)], most: usize) -> Continuation<'a> {
        continuation(self.slot, &self.options, chosen, self.text.len(), most.min(self.text.left()))
    }

    /// Whether it may have another token.
    pub(super) fn wants_tokens(&self) -> bool {
        self.text.left() > 0
    }

    /// Whether its text has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.text.has_ended()
    }

    /// The text that was held back, and what was generated.
    pub(super) fn finish(self) -> (String, Generated) {
        self.text.finish(self.prompt_tokens)
    }
}
