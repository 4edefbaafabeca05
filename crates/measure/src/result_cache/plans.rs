//! Jobs about whole plans.

use super::{ResultCache, TrialError, paired};
use crate::job::{Job, PlanId};
use crate::ledger::{Gate, Outcome};
use crate::paired::{Effort, PairedResult, Screened};
use crate::scenario::Scenario;
use crate::stats::summary::median;
use std::collections::BTreeMap;
use wgoose_kernels::Plan;

impl ResultCache<'_> {
    /// The gate of a plan, or of its decoding.
    ///
    /// # Errors
    /// The plan does not run; the runner or the ledger fails.
    pub fn gate(&mut self, plan: &Plan, only_decode: bool) -> Result<Gate, TrialError> {
        self.gate_with(plan, only_decode, Effort::none())
    }

    pub(super) fn gate_with(&mut self, plan: &Plan, only_decode: bool, effort: Effort) -> Result<Gate, TrialError> {
        let plan = self.know(plan)?;
        match self.run(&Job::Gate { plan, only_decode }, None, effort)? {
            Outcome::Gate(gate) => Ok(gate),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "gate" }),
        }
    }

    /// The gate of a plan's long prompts and full batches, or of its decoding for longer.
    ///
    /// # Errors
    /// As [`ResultCache::gate`].
    pub fn extended_gate(&mut self, plan: &Plan, only_decode: bool) -> Result<Gate, TrialError> {
        let plan = self.know(plan)?;
        match self.run(&Job::ExtendedGate { plan, only_decode }, None, Effort::none())? {
            Outcome::Gate(gate) => Ok(gate),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "extended gate" }),
        }
    }

    /// The gate of a plan, if it was taken: that of all it does, or of its decoding.
    pub fn known_gate(&self, plan: &Plan) -> Option<Gate> {
        [false, true].into_iter().find_map(|only_decode| {
            let job = Job::Gate { plan: PlanId::of(plan), only_decode };
            match self.recall(&self.identity(&job)) {
                Some(Outcome::Gate(gate)) => Some(gate),
                _ => None,
            }
        })
    }

    /// Nanoseconds of a step of each scenario in which this search has compared plans, of the candidate in the last
    /// comparison, and how many steps a sample has.
    pub fn samples(&self) -> BTreeMap<Scenario, (f64, u32)> {
        let mut samples = BTreeMap::new();
        for (job, _) in self.took() {
            let (Job::Steps { scenario, .. } | Job::Confirm { scenario, .. }) = job else { continue };
            if let Some(Outcome::Pair { samples_ns: [_, candidate], repeats, .. }) = self.recall(&self.identity(job)) {
                samples.extend(median(&candidate).map(|ns| (*scenario, (ns, repeats))));
            }
        }
        samples
    }

    /// That the persistent kernel of a plan runs.
    ///
    /// # Errors
    /// It does not; the runner or the ledger fails.
    pub fn resident(&mut self, plan: &Plan) -> Result<(), TrialError> {
        let plan = self.know(plan)?;
        match self.run(&Job::Resident { plan }, None, Effort::none())? {
            Outcome::Done => Ok(()),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "resident" }),
        }
    }

    /// Has plans compiled on all cores before they are asked for one by one. Where that once took the process with it,
    /// each is compiled when it is asked for.
    ///
    /// # Errors
    /// The runner or the ledger fails.
    pub fn prepare(&mut self, plans: &[Plan]) -> Result<(), TrialError> {
        let plans = plans.iter().map(|plan| self.know(plan)).collect::<Result<Vec<_>, _>>()?;
        if plans.len() > 1 {
            self.run(&Job::Prepare { plans }, None, Effort::none())?;
        }
        Ok(())
    }

    /// Whether a candidate is worth a comparison: a few samples of it and of the incumbent.
    ///
    /// # Errors
    /// One of them does not run; the runner or the ledger fails.
    pub fn screen(&mut self, [incumbent, candidate]: [&Plan; 2], scenario: Scenario) -> Result<Screened, TrialError> {
        let plans = [self.know(incumbent)?, self.know(candidate)?];
        match self.run(&Job::Screen { plans, scenario }, None, Effort::none())? {
            Outcome::Pair { samples_ns: [a, b], .. } => Ok(Screened::of(&a, &b)),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "screen" }),
        }
    }

    /// Compares a candidate with the incumbent; a `held_out` comparison takes samples of its own.
    ///
    /// # Errors
    /// One of them does not run; the runner or the ledger fails.
    pub fn steps(
        &mut self,
        [incumbent, candidate]: [&Plan; 2],
        scenario: Scenario,
        held_out: bool,
        effort: Effort,
    ) -> Result<PairedResult, TrialError> {
        let plans = [self.know(incumbent)?, self.know(candidate)?];
        match self.run(&Job::Steps { plans, scenario, held_out }, None, effort)? {
            Outcome::Pair { samples_ns, .. } => Ok(paired(&samples_ns, &effort.criteria())?),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "steps" }),
        }
    }

    /// Compares a candidate with the default plan in one of several fresh processes: the samples of both.
    ///
    /// # Errors
    /// One of them does not run; the runner or the ledger fails.
    pub fn confirm(
        &mut self,
        [default, candidate]: [&Plan; 2],
        scenario: Scenario,
        process: u32,
        effort: Effort,
    ) -> Result<[Vec<f64>; 2], TrialError> {
        let plans = [self.know(default)?, self.know(candidate)?];
        match self.run(&Job::Confirm { plans, scenario, process }, None, effort)? {
            Outcome::Pair { samples_ns, .. } => Ok(samples_ns),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "confirm" }),
        }
    }
}
