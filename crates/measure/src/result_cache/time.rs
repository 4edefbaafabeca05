//! The time of a search, as it is spent on comparisons and gates.

use super::{ResultCache, TrialError};
use crate::job::Job;
use crate::ledger::Gate;
use crate::paired::Effort;
use std::time::Duration;
use wgoose_kernels::Plan;

/// How long after the end of its time a comparison that has begun may go on at the most, and how long after it what won
/// may be confirmed.
const LATE: Duration = Duration::from_secs(10);

/// The same as a part of the budget.
const LATE_PART: u32 = 20;

/// The same of a search of so long.
pub fn late(budget: Duration) -> Duration {
    LATE.min(budget / LATE_PART)
}

/// The share of a search that one comparison may take: a candidate that cannot be told from the incumbent by then must
/// not cost the others their turn.
const SHARE: u32 = 8;

impl ResultCache<'_> {
    /// The jobs that this search has asked for, with the seconds that each instance took. A sweep that goes on knows no
    /// more than the one before it did.
    pub fn took(&self) -> impl Iterator<Item = (&Job, f64)> {
        self.took.iter().map(|(job, seconds)| (job, *seconds))
    }

    /// Seconds that a kernel takes to be compiled, checked and timed, on average; a quarter of one while nothing is
    /// known.
    pub fn kernel_seconds(&self) -> f64 {
        let (mut seconds, mut kernels) = (0.0, 0);
        for (job, took) in self.took() {
            match job {
                Job::Kernel { .. } => (seconds, kernels) = (seconds + took, kernels + 1),
                Job::Compile { .. } => seconds += took,
                _ => {}
            }
        }
        if kernels == 0 { 0.25 } else { seconds / f64::from(kernels) }
    }

    /// From now on no comparison and no gate begins once that much time was spent, and a comparison that goes on is
    /// broken off soon after.
    pub fn end_at(&mut self, end: Duration) {
        self.end = Some(end);
        self.share = Some(end / SHARE);
    }

    /// Time that was spent on waiting for the reference, beside the budget.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// There are a few seconds more, from the end or now on: what won by then would be lost.
    pub fn go_on(&mut self) {
        let spent = self.spent();
        self.end = self.end.map(|end| end.max(spent).saturating_add(late(end)));
    }

    /// For what is broken off when the time is over, not a little later.
    pub fn until_the_end(&self, effort: Effort) -> Effort {
        Effort { most: self.end.map(|end| end.saturating_sub(self.spent())), ..effort }
    }

    /// With the end of what goes on then.
    ///
    /// # Errors
    /// The time is over.
    pub(super) fn in_time(&self, job: &Job, effort: Effort) -> Result<Effort, TrialError> {
        let is_of_plans = matches!(job, Job::Steps { .. } | Job::Screen { .. } | Job::Confirm { .. });
        let is_bound = is_of_plans || matches!(job, Job::Gate { .. } | Job::ExtendedGate { .. });
        let effort = Effort { share: effort.share.or(self.share), ..effort };
        match self.end.filter(|_| is_bound && effort.most.is_none()) {
            None => Ok(effort),
            Some(end) if self.spent() >= end => Err(TrialError::OutOfTime),
            Some(end) => Ok(Effort { most: Some(end.saturating_add(late(end)) - self.spent()), ..effort }),
        }
    }

    /// The gate of a plan, even if the time is over.
    ///
    /// # Errors
    /// As of [`ResultCache::gate`].
    pub fn gate_in_any_case(&mut self, plan: &Plan, only_decode: bool) -> Result<Gate, TrialError> {
        self.gate_with(plan, only_decode, Effort::in_any_case())
    }
}
