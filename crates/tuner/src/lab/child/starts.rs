//! Starts of processes, timed: what a user waits for the first token, with one plan and with another.

use super::supervisor::Supervisor;
use crate::job::PlanId;
use crate::lab::LabError;
use crate::lab::plans::End;
use crate::ledger::{Outcome, Reason};
use crate::paired::Effort;
use crate::scenario::Scenario;
use crate::stats::schedule::{Arm, abba};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use wgoose_kernels::Plan;

/// Times starts; the plans lie in files, as those of people do.
pub(super) struct Starts {
    folder: TempDir,
    /// Those with which a process was started before: its kernels are on disk.
    begun: BTreeSet<PlanId>,
}

impl Starts {
    /// # Errors
    /// There is no place for temporary files.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Starts { folder: tempfile::tempdir()?, begun: BTreeSet::new() })
    }

    /// Interleaved starts with two plans, in nanoseconds.
    ///
    /// # Errors
    /// No process can be started, or the user interrupts.
    pub(super) fn pair(
        &mut self,
        supervisor: &mut Supervisor,
        plans: [&Plan; 2],
        scenario: Scenario,
        effort: Effort,
    ) -> Result<Outcome, LabError> {
        // Another process would hold memory of the device.
        supervisor.stop();
        let end = End::of(effort);
        let files = [self.file(plans[0])?, self.file(plans[1])?];
        let start = |i: usize| supervisor.time_start(&files[i], scenario.tokens);
        for (i, plan) in plans.iter().enumerate() {
            // The first one compiles.
            if self.begun.insert(PlanId::of(plan))
                && let Err(reason) = start(i)?
            {
                return Ok(Outcome::Failed(reason));
            }
        }
        let mut samples_ns = [Vec::new(), Vec::new()];
        for arm in abba(*effort.pairs().start()).flatten() {
            if end.is_over() {
                return Ok(Outcome::Interrupted);
            }
            let i = usize::from(arm == Arm::Candidate);
            let ns: Result<f64, Reason> = start(i)?;
            match ns {
                Ok(ns) => samples_ns[i].push(ns),
                Err(reason) => return Ok(Outcome::Failed(reason)),
            }
        }
        Ok(Outcome::Pair { samples_ns, repeats: 1, copies: 0 })
    }

    fn file(&self, plan: &Plan) -> Result<PathBuf, LabError> {
        let path = self.folder.path().join(format!("{}.ron", plan.hash()));
        let written = fs::write(&path, plan.to_ron());
        written.map_err(|source| super::ChildError::Bundle { path: path.clone(), source })?;
        Ok(path)
    }
}
