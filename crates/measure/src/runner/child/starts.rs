//! Starts of processes, timed: what a user waits for the first token, with one plan and with another.

use super::supervisor::Supervisor;
use crate::job::PlanId;
use crate::ledger::{Outcome, Reason};
use crate::paired::Effort;
use crate::runner::RunnerError;
use crate::runner::plans::End;
use crate::scenario::Scenario;
use crate::stats::schedule::{Arm, abba};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
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
    ) -> Result<Outcome, RunnerError> {
        // Another process would hold memory of the device.
        supervisor.stop();
        let end = End::of(effort);
        let files = [self.file(plans[0])?, self.file(plans[1])?];
        // The first start with a plan compiles.
        let new = (0..plans.len()).filter(|i| self.begun.insert(PlanId::of(plans[*i])));
        let compiling: Vec<(usize, bool)> = new.map(|i| (i, false)).collect();
        let timed = abba(*effort.pairs().start()).flatten().map(|arm| (usize::from(arm == Arm::Candidate), true));
        let (mut samples_ns, mut longest) = ([Vec::new(), Vec::new()], Duration::ZERO);
        for (i, is_timed) in compiling.into_iter().chain(timed) {
            // What has begun cannot be broken off.
            if end.is_before(longest) {
                return Ok(Outcome::Interrupted);
            }
            let begun = Instant::now();
            let ns: Result<f64, Reason> = supervisor.time_start(&files[i], scenario.tokens)?;
            longest = longest.max(begun.elapsed());
            match ns {
                Ok(ns) if is_timed => samples_ns[i].push(ns),
                Ok(_) => {}
                Err(reason) => return Ok(Outcome::Failed(reason)),
            }
        }
        Ok(Outcome::Pair { samples_ns, repeats: 1, copies: 0 })
    }

    fn file(&self, plan: &Plan) -> Result<PathBuf, RunnerError> {
        let path = self.folder.path().join(format!("{}.ron", plan.hash()));
        let written = fs::write(&path, plan.to_ron());
        written.map_err(|source| super::ChildError::Bundle { path: path.clone(), source })?;
        Ok(path)
    }
}
