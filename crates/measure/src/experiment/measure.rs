//! Runs an experiment: the gate of each arm, then each beside the baseline.

use super::arm::Arm;
use super::findings::Findings;
use crate::job::{Job, PlanId};
use crate::ledger::{ArmRecord, ImpossibleArm, Ledger, LedgerError, Outcome, Reason, SessionRecord};
use crate::objective::Objective;
use crate::paired::Effort;
use crate::quality::PendingReference;
use crate::result_cache::{ResultCache, TrialError};
use crate::runner::{GpuRunner, Runner, RunnerError};
use crate::scenario::Scenario;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wgoose_kernels::{Plan, PlanError};
use wgoose_runtime::CancelToken;
use wgoose_runtime::{Device, GpuExecutor};

/// What is measured, where, and for how long.
pub struct Measuring<'a> {
    /// The device.
    pub device: &'a Arc<Device>,
    /// The baseline, then what is held against it.
    pub arms: &'a [Arm],
    /// Arms that this device cannot have.
    pub left_out: &'a [ImpossibleArm],
    /// What is timed.
    pub objective: &'a Objective,
    /// What the experiment is called.
    pub experiment: &'a str,
    /// Content hash of its declaration, if it has one.
    pub declaration: Option<String>,
    /// Folder where references of models are kept.
    pub references: &'a Path,
    /// Time for the samples, but for compiling and the fewest pairs.
    pub budget: Duration,
    /// Version of the program, as the ledger is to have it.
    pub version: String,
    /// What ends it early.
    pub cancel: CancelToken,
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub enum Doing<'a> {
    /// An arm is held against the reference.
    Checking(&'a str),
    /// An arm was refused.
    Refused(&'a str, &'a Reason),
    /// An arm is timed beside the baseline.
    Timing {
        /// Which.
        arm: &'a str,
        /// In what.
        scenario: Scenario,
        /// How many comparisons are done.
        done: usize,
        /// Of how many.
        of: usize,
    },
}

/// What stops an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// There is nothing to compare.
    #[error("an experiment needs a baseline and something that is held against it")]
    NoArms,
    /// Two arms are one.
    #[error("arm '{second}' is the same as '{first}': same plan, model and kernels")]
    Same {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// The baseline is wrong or does not run.
    #[error("the baseline is refused, and nothing is held against it: {0}")]
    Baseline(Reason),
    /// The runner cannot be set up.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// A trial.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// A default kernel that is needed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Measuring<'_> {
    /// Measures, every outcome in the ledger before the next one is measured; what was found.
    ///
    /// # Errors
    /// The device, the ledger, or the baseline, which must run and be right. An arm that is not is a finding.
    pub fn run(&self, ledger: Ledger, tell: &mut dyn FnMut(Doing<'_>)) -> Result<Findings, ExperimentError> {
        let records = self.records()?;
        let mut runner = self.runner(&records)?;
        self.run_in(&mut runner, ledger, &records, tell)
    }

    /// The arms, as jobs and the ledger have them.
    fn records(&self) -> Result<Vec<ArmRecord>, ExperimentError> {
        let [baseline, others @ ..] = self.arms else { return Err(ExperimentError::NoArms) };
        if others.is_empty() {
            return Err(ExperimentError::NoArms);
        }
        let records: Vec<ArmRecord> = self.arms.iter().map(|arm| arm.record(baseline)).collect();
        // One that is the baseline itself shows what noise looks like; two others would have one place for their
        // samples.
        for (i, second) in records.iter().enumerate().skip(1) {
            if let Some(first) = records[1..i].iter().find(|first| first.id == second.id) {
                let (first, second) = (first.name.clone(), second.name.clone());
                return Err(ExperimentError::Same { first, second });
            }
        }
        Ok(records)
    }

    /// A runner with the weights of each model and kernels once.
    fn runner(&self, records: &[ArmRecord]) -> Result<GpuRunner, RunnerError> {
        let device = self.device;
        let default = |arm: &Arm| Plan::default_for(device.fingerprint().clone(), *arm.model.shape(), device.limits());
        let reference = |arm: &Arm| PendingReference::filed(&arm.model, self.references.to_owned());
        let first = &self.arms[0];
        let of_first = (&first.catalogue, reference(first));
        let mut runner = GpuRunner::new(device, &first.model, &default(first), of_first, Instant::now())?;
        let mut seen = vec![first];
        for arm in self.arms {
            if seen.iter().any(|known| known.shares_weights_with(arm)) {
                continue;
            }
            seen.push(arm);
            let (model, catalogue) = (Arc::clone(&arm.model), Arc::clone(&arm.catalogue));
            let root = GpuExecutor::new(Arc::clone(device), model, default(arm), catalogue, 1)?;
            let own = self.arms.iter().zip(records).filter(|(other, _)| other.shares_weights_with(arm));
            runner.also(own.map(|(_, record)| record.id.clone()), root, &arm.catalogue, reference(arm));
        }
        records.iter().filter(|record| !record.drive.is_usual()).for_each(|r| runner.drive(r.id.clone(), r.drive));
        Ok(runner)
    }

    fn run_in(
        &self,
        runner: &mut dyn Runner,
        ledger: Ledger,
        records: &[ArmRecord],
        tell: &mut dyn FnMut(Doing<'_>),
    ) -> Result<Findings, ExperimentError> {
        let baseline = &self.arms[0];
        let fingerprint = self.device.fingerprint().clone();
        let mut cache = ResultCache::new(ledger, fingerprint.clone(), Some(baseline.model_id()), runner);
        cache.heed(self.cancel.clone());
        cache.begin(SessionRecord {
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            version: self.version.clone(),
            device: fingerprint,
            limits: Box::new(self.device.limits().clone()),
            model: baseline.model_id(),
            shape: *baseline.model.shape(),
            default: records[0].plan.clone(),
            budget: self.budget.as_secs_f64(),
            start: None,
        })?;
        let arms = records.iter().cloned().zip(self.arms.iter().map(|arm| &arm.plan)).collect();
        let (workload, left_out) = (self.objective.scenarios(), self.left_out.to_vec());
        cache.enrol((self.experiment.to_owned(), self.declaration.clone()), arms, (workload, left_out))?;

        let mut right: Vec<&ArmRecord> = Vec::new();
        for (i, arm) in records.iter().enumerate() {
            // What was seen needs no second look, however it is driven.
            let is_known = right.iter().any(|known| known.plan == arm.plan && known.model == arm.model);
            tell(Doing::Checking(&arm.name));
            match if is_known { None } else { self.refusal(&mut cache, &arm.id)? } {
                None => right.push(arm),
                Some(reason) if i == 0 => return Err(ExperimentError::Baseline(reason)),
                Some(reason) => tell(Doing::Refused(&arm.name, &reason)),
            }
        }
        let mut fell_back: Vec<&PlanId> = Vec::new();
        if self.objective.decodes() {
            for arm in right.iter().filter(|arm| arm.persistent) {
                let resident = cache.anew(&Job::Resident { plan: arm.id.clone() }, Effort::none())?;
                if matches!(resident, Outcome::Failed(_)) {
                    fell_back.push(&arm.id);
                }
            }
        }
        self.time(&mut cache, &right, &fell_back, tell)?;
        Findings::of_session(cache.records(), cache.session()).ok_or(ExperimentError::NoArms)
    }

    /// Why an arm is not timed, if it is not to be.
    fn refusal(&self, cache: &mut ResultCache<'_>, plan: &PlanId) -> Result<Option<Reason>, ExperimentError> {
        let outcome = cache.anew(&Job::Gate { plan: plan.clone(), only_decode: false }, Effort::none())?;
        Ok(super::findings::refusal(&outcome))
    }

    /// Times each arm beside the baseline, in each scenario; every comparison has its share of the time that is left,
    /// half of it for samples that are held out.
    fn time(
        &self,
        cache: &mut ResultCache<'_>,
        right: &[&ArmRecord],
        fell_back: &[&PlanId],
        tell: &mut dyn FnMut(Doing<'_>),
    ) -> Result<(), ExperimentError> {
        let [baseline, others @ ..] = right else { return Ok(()) };
        let scenarios = self.objective.scenarios();
        let is_timed = |arm: &ArmRecord, scenario: Scenario| {
            scenario != Scenario::DECODE || ![&baseline.id, &arm.id].iter().any(|id| fell_back.contains(id))
        };
        let all = scenarios.iter().flat_map(|scenario| others.iter().map(move |arm| (*arm, *scenario)));
        let all: Vec<(&ArmRecord, Scenario)> = all.filter(|(arm, scenario)| is_timed(arm, *scenario)).collect();
        let begun = Instant::now();
        for (done, (arm, scenario)) in all.iter().copied().enumerate() {
            tell(Doing::Timing { arm: &arm.name, scenario, done, of: all.len() });
            let left = self.budget.saturating_sub(begun.elapsed());
            let allowance = left / (2 * (all.len() - done)) as u32;
            let effort = Effort { share: Some(2 * allowance), ..Effort::sure(allowance) };
            let mut time = |held_out| {
                let plans = [baseline.id.clone(), arm.id.clone()];
                cache.anew(&Job::Steps { plans, scenario, held_out }, effort)
            };
            // What fails is a finding, and in the ledger. What is faster or slower must be so twice.
            if super::findings::needs_another_look(&time(false)?) {
                time(true)?;
            }
        }
        Ok(())
    }
}
