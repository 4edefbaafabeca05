//! The variants of an op side by side at one kind of instance: what somebody who writes a kernel waits for.

use super::candidates::Candidates;
use super::tuner::{KernelTuner, KernelTuningError};
use std::time::Duration;
use wgoose_measure::ledger::Outcome;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::stats::summary::Summary;

/// A variant at an instance.
#[derive(Clone, Debug)]
pub struct TimedVariant {
    /// Its best configuration of those that were tried, as `op/variant NAME=value ...`; its name if none ran.
    pub label: String,
    /// Configurations that were tried.
    pub tried: usize,
    /// Nanoseconds, or why there are none: it is refused, fails or is wrong.
    pub result: Result<Summary, String>,
}

impl KernelTuner<'_> {
    /// Times every variant of a group's op, the fastest first: each in the first configuration that makes a kernel, and the
    /// one named `tuned` also with one tunable at a time varied, for as long as that helps and `deadline`, time of the budget, has not come.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn side_by_side(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        tuned: Option<&str>,
        deadline: Duration,
    ) -> Result<Vec<TimedVariant>, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        let first = candidates.first_of_each_variant()?;
        let mut timed = Vec::new();
        for variant in self.catalogue.variants(&group.key.op) {
            let own: Vec<usize> = candidates.of_variant(variant.path()).collect();
            let begin: Vec<usize> = first.iter().copied().filter(|i| own.contains(i)).collect();
            let until = if tuned == Some(variant.name()) { deadline } else { Duration::ZERO };
            let before = candidates.tried;
            let best = candidates.descend_from(&begin, None, until)?.map(|(best, _)| best);
            let tried = candidates.tried - before;
            let label = best.map_or_else(|| variant.name().to_owned(), |best| candidates.label(best));
            // Without a best one, the first says what is wrong.
            let result = match (
                candidates.broken_variant(variant.path()),
                best.or(begin.first().copied()).or(own.first().copied()),
            ) {
                (Some(error), _) => Err(error.to_string()),
                (None, None) => Err("it has no configurations".to_owned()),
                (None, Some(i)) => match candidates.outcome(i)? {
                    Outcome::Failed(reason) => Err(reason.text),
                    outcome => Summary::of(outcome.samples_ns()).ok_or_else(|| "no samples".to_owned()),
                },
            };
            timed.push(TimedVariant { label, tried, result });
        }
        let ns = |t: &TimedVariant| t.result.as_ref().map_or(f64::INFINITY, |summary| summary.median);
        timed.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
        Ok(timed)
    }
}
