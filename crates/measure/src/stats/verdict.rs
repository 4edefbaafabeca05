//! Four words for a comparison of two: FAST, SLOW, SAME, AMBIGUOUS (the vocabulary of nvbench-compare).
//!
//! A candidate must earn its place: the interval has to exclude zero *and* the gain has to be worth a change of plan.
//! Everything else leaves the incumbent where it is.
//!
//! How often a comparison of a kernel with itself still ends in FAST or SLOW, in simulation (`tests/aa_rate.rs`:
//! log-normal noise per sample, 5 % outliers, a steady drift): below 0.5 % at 1 % noise; at 2 % noise 4 % with 6 pairs
//! and 0.1 % with 40; from 5 % noise on about 6 % with any number, which is the interval's own error and no longer held
//! back by the size of the gain. A winner must therefore win again on held-out samples: wrong twice stays below 0.3 %
//! at any noise.

use super::bootstrap::{Bootstrap, Interval};
use super::summary::median;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What paired samples say of a candidate against the incumbent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Surely faster, by enough to matter.
    Fast,
    /// Surely slower, by enough to matter.
    Slow,
    /// Surely no difference that matters.
    Same,
    /// The samples do not say.
    Ambiguous,
}

impl Verdict {
    /// Whether the candidate takes the incumbent's place: only where it is [`Verdict::Fast`].
    pub const fn replaces_incumbent(self) -> bool {
        matches!(self, Verdict::Fast)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Fast => "FAST",
            Verdict::Slow => "SLOW",
            Verdict::Same => "SAME",
            Verdict::Ambiguous => "AMBIGUOUS",
        })
    }
}

/// What it takes to say more than [`Verdict::Ambiguous`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// Smallest gain that matters, as a ratio of times minus one (0.02: two per cent), in both directions.
    pub min_gain: f64,
    /// Fewer pairs than this are always ambiguous.
    pub min_pairs: usize,
    /// The interval around the median log-ratio.
    pub bootstrap: Bootstrap,
}

impl Criteria {
    /// For one kernel: at least 6 pairs. With 5 even the full range of the samples covers the true median with only
    /// `1 - 2 / 2^5` = 94 %, so that no interval of theirs can honestly be called one of 95 %.
    pub fn kernel() -> Self {
        Self { min_gain: 0.02, min_pairs: 6, bootstrap: Bootstrap::default() }
    }

    /// For a whole step: at least 40 pairs.
    pub fn step() -> Self {
        Self { min_pairs: 40, ..Self::kernel() }
    }
}

/// A verdict with its evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The word.
    pub verdict: Verdict,
    /// Median of `ln(incumbent / candidate)`: above 0 the candidate is faster.
    pub log_ratio: f64,
    /// Bootstrap interval of that median.
    pub interval: Interval,
    /// Number of pairs.
    pub pairs: usize,
}

/// Why samples cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PairError {
    /// There is nothing to compare.
    #[error("no samples to compare")]
    Empty,
    /// The two lists do not pair up.
    #[error("{incumbent} samples of the incumbent against {candidate} of the candidate: pairs need as many of each")]
    Unpaired {
        /// Samples of the incumbent.
        incumbent: usize,
        /// Samples of the candidate.
        candidate: usize,
    },
    /// A time has no logarithm.
    #[error("pair {pair} holds a time of {ns} ns: the clock is broken, or the work was not done")]
    NotATime {
        /// Index of the pair.
        pair: usize,
        /// The offending sample.
        ns: f64,
    },
}

/// `ln(incumbent / candidate)` of each pair.
fn log_ratios(incumbent: &[f64], candidate: &[f64]) -> Result<Vec<f64>, PairError> {
    if incumbent.len() != candidate.len() {
        return Err(PairError::Unpaired { incumbent: incumbent.len(), candidate: candidate.len() });
    }
    let is_time = |ns: f64| ns.is_finite() && ns > 0.0;
    let ratio = |(pair, (&a, &b)): (usize, (&f64, &f64))| match [a, b].into_iter().find(|&ns| !is_time(ns)) {
        Some(ns) => Err(PairError::NotATime { pair, ns }),
        None => Ok(a.ln() - b.ln()),
    };
    incumbent.iter().zip(candidate).enumerate().map(ratio).collect()
}

/// Judges `candidate` against `incumbent`, pair by pair (sample `i` of one was taken beside sample `i` of the other).
pub fn compare(incumbent: &[f64], candidate: &[f64], criteria: &Criteria) -> Result<Comparison, PairError> {
    let ratios = log_ratios(incumbent, candidate)?;
    let log_ratio = median(&ratios).ok_or(PairError::Empty)?;
    let interval = criteria.bootstrap.median(&ratios).ok_or(PairError::Empty)?;
    let verdict = if ratios.len() < criteria.min_pairs {
        Verdict::Ambiguous
    } else {
        judge(log_ratio, interval, criteria.min_gain)
    };
    Ok(Comparison { verdict, log_ratio, interval, pairs: ratios.len() })
}

fn judge(log_ratio: f64, interval: Interval, min_gain: f64) -> Verdict {
    let matters = min_gain.ln_1p();
    if -matters < interval.low && interval.high < matters {
        Verdict::Same
    } else if interval.low > 0.0 && log_ratio >= matters {
        Verdict::Fast
    } else if interval.high < 0.0 && log_ratio <= -matters {
        Verdict::Slow
    } else {
        Verdict::Ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judged(low: f64, log_ratio: f64, high: f64) -> Verdict {
        judge(log_ratio, Interval { low, high }, 0.02)
    }

    #[test]
    fn each_verdict_has_its_region() {
        assert_eq!(judged(0.01, 0.05, 0.09), Verdict::Fast);
        assert_eq!(judged(-0.09, -0.05, -0.01), Verdict::Slow);
        assert_eq!(judged(-0.01, 0.005, 0.015), Verdict::Same);
        assert_eq!(judged(0.005, 0.01, 0.015), Verdict::Same, "surely faster, by less than matters");
        assert_eq!(judged(-0.01, 0.05, 0.09), Verdict::Ambiguous, "the interval holds zero");
        assert_eq!(judged(0.001, 0.01, 0.04), Verdict::Ambiguous, "the gain is too small");
        assert_eq!(judged(-0.5, 0.0, 0.5), Verdict::Ambiguous);
    }

    #[test]
    fn a_fast_verdict_alone_replaces_the_incumbent() {
        assert!(Verdict::Fast.replaces_incumbent());
        assert!(![Verdict::Slow, Verdict::Same, Verdict::Ambiguous].iter().any(|v| v.replaces_incumbent()));
    }

    #[test]
    fn five_pairs_are_never_enough() {
        let verdict = |n| compare(&vec![200.0; n], &vec![100.0; n], &Criteria::kernel()).unwrap().verdict;
        assert_eq!(verdict(5), Verdict::Ambiguous);
        assert_eq!(verdict(6), Verdict::Fast);
    }

    #[test]
    fn broken_pairs_are_refused() {
        let refused = |a: &[f64], b: &[f64]| compare(a, b, &Criteria::kernel()).unwrap_err();
        assert_eq!(refused(&[], &[]), PairError::Empty);
        assert_eq!(refused(&[1.0], &[]), PairError::Unpaired { incumbent: 1, candidate: 0 });
        assert_eq!(refused(&[1.0, 1.0], &[1.0, 0.0]), PairError::NotATime { pair: 1, ns: 0.0 });
        assert!(matches!(refused(&[f64::NAN], &[1.0]), PairError::NotATime { pair: 0, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn exchanging_the_arms_turns_the_answer_round(
            pairs in prop::collection::vec((1.0..2.0f64, 1.0..2.0f64), 6..30),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let criteria = Criteria::kernel();
            let (forth, back) = (compare(&a, &b, &criteria).unwrap(), compare(&b, &a, &criteria).unwrap());
            prop_assert!((forth.log_ratio + back.log_ratio).abs() < 1e-12);
            // The ends of the two intervals are drawn apart, so that a close call may fall either way; a contradiction
            // may not.
            prop_assert!(forth.verdict != Verdict::Fast || back.verdict != Verdict::Fast);
            prop_assert!(forth.verdict != Verdict::Slow || back.verdict != Verdict::Slow);
        }
    }

    #[test]
    fn a_clear_answer_turns_round_exactly() {
        let incumbent: Vec<f64> = (0..8).map(|i| 100.0 + f64::from(i % 3)).collect();
        let candidate: Vec<f64> = incumbent.iter().map(|ns| ns * 0.9).collect();
        let verdict = |a: &[f64], b: &[f64]| compare(a, b, &Criteria::kernel()).unwrap().verdict;
        assert_eq!(verdict(&incumbent, &candidate), Verdict::Fast);
        assert_eq!(verdict(&candidate, &incumbent), Verdict::Slow);
        assert_eq!(verdict(&incumbent, &incumbent), Verdict::Same);
    }
}
