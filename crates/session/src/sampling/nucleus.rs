//! Which tokens may be drawn: the likeliest ones that reach a probability or a number, found without sorting.

use super::weight::{ONE, weight};
use std::cmp::Ordering;
use std::num::NonZeroUsize;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) logit: f32,
    pub(super) id: u32,
}

impl Candidate {
    /// The likelier first; of equal ones the lower id. The logits are numbers, and zero has one sign.
    fn by_likelihood(&self, other: &Candidate) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }

    fn weight(&self, max: f32) -> u64 {
        weight(f64::from(self.logit) - f64::from(max))
    }
}

/// Fills `kept` with the tokens both in the nucleus `top_p` and among the `top_k` likeliest, in order of ids.
/// `max` is the largest logit; none is NaN.
pub(super) fn select(kept: &mut Vec<Candidate>, logits: &[f32], max: f32, top_p: f32, top_k: Option<NonZeroUsize>) {
    kept.clear();
    let above = |floor: f64| {
        let candidates = logits.iter().zip(0..).map(|(&logit, id)| Candidate { logit: logit + 0.0, id });
        candidates.filter(move |c| f64::from(c.logit) >= floor)
    };
    if top_p < 1.0 {
        let total: u64 = logits.iter().map(|&logit| weight(f64::from(logit) - f64::from(max))).sum();
        let target = (f64::from(top_p) * total as f64).ceil() as u64;
        // Tokens that weigh less than an equal share of what the nucleus may leave out cannot belong to it: leave most
        // of the vocabulary aside. The margin of 1 makes the precision of `ln` irrelevant.
        let share = total.saturating_sub(target) as f64 / logits.len() as f64;
        kept.extend(above(f64::from(max) + (share / ONE).ln() - 1.0));
        let nucleus = shortest_prefix(kept, max, target);
        kept.truncate(nucleus);
    } else {
        kept.extend(above(f64::from(f32::MIN)));
    }
    if let Some(k) = top_k.map(NonZeroUsize::get).filter(|&k| k < kept.len()) {
        kept.select_nth_unstable_by(k, Candidate::by_likelihood);
        kept.truncate(k);
    }
    // Selection leaves an order of its own; results must not depend on it.
    kept.sort_unstable_by_key(|c| c.id);
}

/// Moves the fewest likeliest candidates that together weigh `target` to the front and returns their number, at least
/// 1. Halves the range in question each time, hence linear.
fn shortest_prefix(candidates: &mut [Candidate], max: f32, mut target: u64) -> usize {
    let (mut low, mut high) = (0, candidates.len());
    while high - low > 1 {
        let middle = low.midpoint(high);
        candidates[low..high].select_nth_unstable_by(middle - low, Candidate::by_likelihood);
        let weight: u64 = candidates[low..middle].iter().map(|c| c.weight(max)).sum();
        if weight >= target {
            high = middle;
        } else {
            target -= weight;
            low = middle;
        }
    }
    high
}
