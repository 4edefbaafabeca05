//! The result of a paired comparison of two plans, and its effort.

use crate::job::Cost;
use crate::stats::sequential::{MOST_SLOWER, Question};
use crate::stats::summary::median;
use crate::stats::verdict::{Comparison, Criteria, Verdict};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
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

impl PairedResult {
    /// Whether the candidate is surely slower, by more than may be.
    pub fn is_surely_slower(&self) -> bool {
        let Comparison { verdict, interval, pairs, .. } = self.comparison;
        verdict == Verdict::Slow || (pairs >= Effort::FEWEST_PAIRS && interval.high < -MOST_SLOWER.ln_1p())
    }
}

/// What a few samples of two plans say of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Screened {
    /// Median logarithm of how many times as fast it is.
    pub log_ratio: f64,
    /// Median nanoseconds of the incumbent.
    pub incumbent_ns: f64,
    /// Whether it was slower in every pair.
    is_slower: bool,
}

impl Screened {
    /// By samples in pairs.
    pub(crate) fn of(incumbent: &[f64], candidate: &[f64]) -> Self {
        let ratios: Vec<f64> = incumbent.iter().zip(candidate).map(|(a, b)| (a / b).ln()).collect();
        let log_ratio = median(&ratios).unwrap_or(f64::NEG_INFINITY);
        let incumbent_ns = median(incumbent).unwrap_or(f64::NAN);
        Screened { log_ratio, incumbent_ns, is_slower: ratios.iter().all(|ratio| *ratio < 0.0) }
    }

    /// Whether a comparison would only say so again.
    pub fn has_lost(self) -> bool {
        self.is_slower && self.log_ratio < -MOST_SLOWER.ln_1p()
    }
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Time for it, but for compiling and the fewest pairs.
    pub allowance: Duration,
    /// After so long no pair begins beyond the fewest: what was sampled by then is the answer. `None`: pairs alone
    /// count.
    #[serde(default)]
    pub share: Option<Duration>,
    /// What it is to find out.
    #[serde(default)]
    pub question: Question,
    /// Smallest gain that matters, as a ratio of times minus one.
    pub(crate) min_gain: f64,
    /// How often both are set up anew.
    pub instances: usize,
    /// Processes among which the pairs are shared.
    #[serde(default = "one")]
    pub(crate) processes: usize,
    /// When it is broken off, whatever is known by then; `None`: it is not, unless the time of a search ends.
    #[serde(default)]
    pub(crate) most: Option<Duration>,
}

fn one() -> usize {
    1
}

impl Effort {
    /// Fewest pairs that can say anything.
    pub(crate) const FEWEST_PAIRS: usize = 6;

    /// Pairs of a comparison, where time allows.
    const PAIRS: usize = 40;

    /// Fewest and most pairs of an instance.
    pub fn pairs(self) -> RangeInclusive<usize> {
        let shares = self.instances * self.processes;
        Self::FEWEST_PAIRS.div_ceil(shares)..=Self::PAIRS.div_ceil(shares)
    }

    /// Pairs that are taken after so many in one process, if those do not say what they seem to say.
    pub fn more(self, taken: usize) -> usize {
        if self.processes == 1 { taken.min(Self::PAIRS.saturating_sub(taken)) } else { 0 }
    }

    /// Seconds of each instance, of what all took.
    pub(crate) fn of_instance(self, cost: Cost) -> f64 {
        cost.total() / self.instances as f64
    }

    /// What it takes to say that one is faster.
    pub fn criteria(self) -> Criteria {
        Criteria { min_pairs: Self::FEWEST_PAIRS, min_gain: self.min_gain, ..Criteria::step() }
    }

    /// None, for what is no comparison.
    pub fn none() -> Self {
        Effort::usual(Duration::ZERO)
    }

    /// For what is done even if the time is over.
    pub(crate) fn in_any_case() -> Self {
        Effort { most: Some(Duration::MAX), ..Effort::none() }
    }

    /// For changes of which each costs something: other kernels, another layout.
    pub fn usual(allowance: Duration) -> Self {
        let min_gain = Criteria::step().min_gain;
        let question = Question::default();
        Effort { allowance, share: None, question, min_gain, instances: 1, processes: 1, most: None }
    }

    /// The same in so many processes, one after another: what each of them does.
    pub fn in_each_of(self, processes: usize) -> Self {
        Effort { allowance: self.allowance / processes as u32, instances: 1, processes, ..self }
    }

    /// To find out that.
    pub fn asking(self, question: Question) -> Self {
        Effort { question, ..self }
    }

    /// For what is reported.
    pub fn sure(allowance: Duration) -> Self {
        Effort { instances: 3, ..Effort::usual(allowance) }
    }

    /// For two steps that differ in stages of a merged kernel: gains add up, and are hardly larger than what two
    /// instances of one plan differ by.
    pub fn fine(allowance: Duration) -> Self {
        Effort { instances: 3, min_gain: 0.005, ..Effort::usual(allowance) }
    }
}
