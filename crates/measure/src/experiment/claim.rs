//! A hypothesis in figures, and the answer of a measurement.

use super::findings::Findings;
use crate::scenario::Scenario;
use crate::stats::Interval;
use serde::Deserialize;
use std::fmt;

/// How many times as fast as the baseline an arm is said to be in one scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The arm.
    pub arm: String,
    /// Tokens that each sequence reads: 1 is decoding.
    pub tokens: u32,
    /// Sequences at once.
    #[serde(default = "one")]
    pub sequences: u32,
    /// The figure that is expected, before anything is measured.
    pub predicted: f64,
    /// The hypothesis holds between these.
    pub holds: (f64, f64),
}

fn one() -> u32 {
    1
}

/// What a measurement says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The whole interval is where the hypothesis holds.
    Holds,
    /// None of it is.
    Fails,
    /// A part of it is.
    Open,
    /// It was not measured: the arm was refused, or it is another workload.
    Unmeasured,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Answer::Holds => "holds",
            Answer::Fails => "fails",
            Answer::Open => "open",
            Answer::Unmeasured => "not measured",
        })
    }
}

impl Claim {
    /// What it is about.
    pub fn scenario(&self) -> Scenario {
        Scenario { tokens: self.tokens, sequences: self.sequences, from_start: false }
    }

    /// What was measured, as times as fast, and what that says.
    pub fn answer(&self, findings: &Findings) -> (Option<f64>, Answer) {
        let found = findings.found.iter().find(|found| found.arm.name == self.arm);
        let timed = found.and_then(|found| found.timed.iter().find(|timed| timed.scenario == self.scenario()));
        let Some(timed) = timed else { return (None, Answer::Unmeasured) };
        let comparison = &timed.result.comparison;
        let answer = if timed.is_contradicted { Answer::Open } else { self.judge(comparison.interval) };
        (Some(comparison.log_ratio.exp()), answer)
    }

    /// What an interval of logarithms says.
    fn judge(&self, Interval { low, high }: Interval) -> Answer {
        let (low, high, (from, to)) = (low.exp(), high.exp(), self.holds);
        match (low >= from && high <= to, high < from || low > to) {
            (true, _) => Answer::Holds,
            (_, true) => Answer::Fails,
            _ => Answer::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_decides_a_claim_or_leaves_it_open() {
        let claim = |holds| Claim { arm: "a".into(), tokens: 1, sequences: 1, predicted: 1.1, holds };
        let judge = |holds, low: f64, high: f64| claim(holds).judge(Interval { low: low.ln(), high: high.ln() });
        assert_eq!(judge((1.02, f64::INFINITY), 1.05, 1.08), Answer::Holds);
        assert_eq!(judge((1.02, f64::INFINITY), 1.01, 1.08), Answer::Open);
        assert_eq!(judge((1.02, f64::INFINITY), 0.97, 1.01), Answer::Fails);
        assert_eq!(judge((0.0, 0.98), 0.99, 1.2), Answer::Fails);
        assert_eq!(judge((0.98, 1.02), 0.9, 1.2), Answer::Open);
    }
}
