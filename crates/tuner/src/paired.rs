//! What a paired comparison of two plans found, and with which effort it was made.

use crate::stats::verdict::{Comparison, Criteria, Verdict};
use std::time::Duration;

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct PairedResult {
    /// Verdict and interval, for the candidate.
    pub comparison: Comparison,
    /// Median nanoseconds of the incumbent.
    pub incumbent_ns: f64,
    /// Median nanoseconds of the candidate.
    pub candidate_ns: f64,
}

/// The share by which a plan may be slower in one thing than what it takes the place of.
const MOST_SLOWER: f64 = 0.01;

impl PairedResult {
    /// Whether the candidate is surely slower, by more than may be.
    pub fn is_surely_slower(&self) -> bool {
        self.comparison.verdict == Verdict::Slow || self.comparison.interval.high < -MOST_SLOWER.ln_1p()
    }
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Time for it, but for compiling and the fewest pairs.
    pub(crate) allowance: Duration,
    /// Smallest gain that matters, as a ratio of times minus one.
    pub(crate) min_gain: f64,
}

impl Effort {
    /// Fewest pairs that can say anything.
    pub(crate) const FEWEST_PAIRS: usize = 6;

    /// What it takes to say that one is faster.
    pub(crate) fn criteria(self) -> Criteria {
        Criteria { min_pairs: Self::FEWEST_PAIRS, min_gain: self.min_gain, ..Criteria::step() }
    }

    /// None, for what is no comparison.
    pub(crate) fn none() -> Self {
        Effort::usual(Duration::ZERO)
    }

    /// For changes of which each costs something: other kernels, another layout.
    pub(crate) fn usual(allowance: Duration) -> Self {
        Effort { allowance, min_gain: Criteria::step().min_gain }
    }

    /// For two steps that differ in one stage of a merged kernel, whose times vary little: gains add up.
    pub(crate) fn fine(allowance: Duration) -> Self {
        Effort { allowance, min_gain: 0.004 }
    }
}
