//! One candidate beside another, in interleaved pairs.

use super::{Candidates, Made};
use crate::kernel_tuning::side_by_side::Beside;
use crate::kernel_tuning::tuner::KernelTuningError;
use wgoose_measure::job::Configured;
use wgoose_measure::ledger::{Cause, Reason};
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::stats::{Comparison, Verdict};

impl Candidates<'_, '_, '_> {
    /// How a candidate compares with an incumbent. FAST and SLOW are said only if samples that were held out say the
    /// same.
    pub(in crate::kernel_tuning) fn beside(
        &mut self,
        incumbent: usize,
        candidate: usize,
    ) -> Result<Beside, KernelTuningError> {
        let made = [self.kernel(incumbent)?, self.kernel(candidate)?];
        let [Made::Kernel(incumbent), Made::Kernel(candidate)] = made else {
            return Ok(Beside::Failed(Reason { cause: Cause::Constraint, text: "it makes no kernel".to_owned() }));
        };
        if incumbent.text == candidate.text {
            return Ok(Beside::Identical);
        }
        match self.judged_twice([incumbent, candidate]) {
            Err(TrialError::Failed(reason)) => Ok(Beside::Failed(reason)),
            compared => Ok(Beside::Compared(compared?)),
        }
    }

    fn judged_twice(&mut self, kernels: [Configured; 2]) -> Result<Comparison, TrialError> {
        let first = self.cache.kernels(self.group, kernels.clone(), false)?;
        if !matches!(first.verdict, Verdict::Fast | Verdict::Slow) {
            return Ok(first);
        }
        let second = self.cache.kernels(self.group, kernels, true)?;
        let verdict = if second.verdict == first.verdict { first.verdict } else { Verdict::Ambiguous };
        Ok(Comparison { verdict, ..second })
    }
}
