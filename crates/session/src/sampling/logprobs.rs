//! Log-probabilities of chosen tokens and of the likeliest ones beside them.

use wgoose_runtime::{ChosenToken, Logprob};

/// Log-probabilities at a token of a text, by the model's own logits: before penalties, biases, grammars and
/// temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was chosen.
    pub chosen: Logprob,
    /// The likeliest tokens, the likeliest first, of equal ones the lowest.
    pub likeliest: Vec<Logprob>,
}

impl TokenLogprobs {
    /// Those that a device gives with a token, with the first `listed` of the likeliest.
    pub(crate) fn of(token: &ChosenToken<'_>, listed: u8) -> Option<Self> {
        let (chosen, likeliest) = token.logprobs.split_first()?;
        let listed = likeliest.iter().take(listed.into()).filter(|other| other.token != u32::MAX);
        Some(TokenLogprobs { chosen: *chosen, likeliest: listed.copied().collect() })
    }

    /// Those of a token by logits `[V]`, none of which is NaN.
    pub(crate) fn new(logits: &[f32], token: u32, listed: u8) -> Self {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|logit| f64::from(logit - max).exp()).sum();
        let of = |token: u32| {
            let logit = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
            Logprob { token, logprob: (f64::from(logit - max) - sum.ln()) as f32 }
        };
        let is_there = |token: &u32| logits[*token as usize] > f32::NEG_INFINITY;
        let mut tokens: Vec<u32> = (0..logits.len() as u32).filter(is_there).collect();
        let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let listed = usize::from(listed).min(tokens.len());
        if listed > 0 && listed < tokens.len() {
            tokens.select_nth_unstable_by(listed - 1, order);
        }
        tokens.truncate(listed);
        tokens.sort_unstable_by(order);
        TokenLogprobs { chosen: of(token), likeliest: tokens.into_iter().map(of).collect() }
    }
}
