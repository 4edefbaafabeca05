//! Tokens of the past, for penalties.

use std::collections::BTreeMap;
use wgoose_runtime::Penalties;

/// How often each token was chosen, long ago counting less; 0 for those of the prompt.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    penalties: Penalties,
    counts: BTreeMap<u32, f32>,
}

impl Counts {
    /// Of nothing. What no penalty asks for is not counted.
    pub(crate) fn new(penalties: Penalties) -> Self {
        Counts { penalties, counts: BTreeMap::new() }
    }

    /// After a prompt.
    pub(crate) fn after(penalties: Penalties, prompt: &[u32]) -> Self {
        let mut counts = Counts::new(penalties);
        counts.see(prompt);
        counts
    }

    /// Notes the tokens of the prompt, which the repetition penalty concerns.
    pub(crate) fn see(&mut self, prompt: &[u32]) {
        if self.penalties.repetition != 1.0 {
            self.counts.extend(prompt.iter().map(|token| (*token, 0.0)));
        }
    }

    /// Counts a token that was chosen.
    pub(crate) fn push(&mut self, token: u32) {
        if self.penalties.any() {
            self.counts.values_mut().for_each(|count| *count *= self.penalties.decay);
            *self.counts.entry(token).or_insert(0.0) += 1.0;
        }
    }

    /// Tokens and how often each counts.
    pub(crate) fn list(&self) -> Vec<(u32, f32)> {
        self.counts.iter().map(|(token, count)| (*token, *count)).collect()
    }

    /// Takes penalties from logits.
    pub(super) fn penalise(&self, logits: &mut [f32]) {
        let Penalties { presence, frequency, repetition, .. } = self.penalties;
        for (token, count) in &self.counts {
            if let Some(logit) = logits.get_mut(*token as usize) {
                let present = if *count > 0.0 { presence } else { 0.0 };
                let repeated = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                *logit = repeated - present - frequency * count;
            }
        }
    }
}
