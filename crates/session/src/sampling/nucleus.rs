//! Which tokens may be drawn: the likeliest or most typical ones that reach a probability or a number, found without
//! sorting.

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
        let nucleus = shortest_prefix(kept, max, target, Candidate::by_likelihood);
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

/// Keeps the tokens whose weight is at least a share of the likeliest one's; `max` is its logit.
pub(super) fn keep_likely(kept: &mut Vec<Candidate>, max: f32, share: f32) {
    let least = f64::from(share) * ONE;
    kept.retain(|c| c.logit >= max || c.weight(max) as f64 >= least);
}

/// Keeps the most typical of the tokens, whose weights first are a share of all; in order of ids.
///
/// With p = exp(logit) / z, the distance of -log p from the entropy is that of the logit from its mean: z cancels, and no
/// logarithm is needed. Ties go to the lower id.
pub(super) fn keep_typical(kept: &mut Vec<Candidate>, max: f32, share: f32) {
    let total: u64 = kept.iter().map(|c| c.weight(max)).sum();
    let above_max = |c: &Candidate| f64::from(c.logit) - f64::from(max);
    let mean = kept.iter().map(|c| c.weight(max) as f64 * above_max(c)).sum::<f64>() / total as f64;
    let distance = |c: &Candidate| (above_max(c) - mean).abs();
    let target = (f64::from(share) * total as f64).ceil() as u64;
    let typical = shortest_prefix(kept, max, target, |a, b| distance(a).total_cmp(&distance(b)).then(a.id.cmp(&b.id)));
    kept.truncate(typical);
    kept.sort_unstable_by_key(|c| c.id);
}

/// Moves the fewest candidates, the first in that order, that together weigh `target` to the front and returns their
/// number, at least 1. Halves the range in question each time, hence linear.
fn shortest_prefix(
    candidates: &mut [Candidate],
    max: f32,
    mut target: u64,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
) -> usize {
    let (mut low, mut high) = (0, candidates.len());
    while high - low > 1 {
        let middle = low.midpoint(high);
        candidates[low..high].select_nth_unstable_by(middle - low, &order);
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
