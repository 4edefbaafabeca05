//! The gates of a sweep: the default plan's, without which nothing is known to be right, and the candidates'.

use crate::sweep::{Candidate, Event, Note, Stage, Sweep, SweepError, SweepStep, tell};
use std::sync::Arc;
use std::time::Duration;
use wgoose_kernels::{Plan, Precision, StateFormat};
use wgoose_measure::ledger::Gate;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::running::changes_only_decode;

impl Sweep<'_> {
    /// That the default plan passes the gate, and whether the plan in use does.
    pub(in crate::sweep) fn check_default(&mut self) -> Result<(), SweepError> {
        self.begin(Stage::Reference, 1)?;
        let gate = self.default_gate()?;
        if !gate.passed {
            return Err(SweepError::Gate(gate.detail));
        }
        let hash = gate.quality_hash.unwrap_or_default();
        self.done(SweepStep::Reference { hash, detail: gate.detail })?;
        self.gate_in_use()
    }

    /// The gate of the default plan, without which nothing is known to be right. It may wait for the reference.
    pub(in crate::sweep) fn default_gate(&mut self) -> Result<Gate, SweepError> {
        let before = self.cache.waited();
        let gate = match self.cache.gate_in_any_case(&self.default, self.gates_are_narrow) {
            Err(TrialError::Failed(reason)) => return Err(SweepError::Gate(reason.to_string())),
            gate => gate?,
        };
        let waited = self.cache.waited().saturating_sub(before);
        if waited >= Duration::from_secs(1) {
            tell(self.listen, Event::Waited(waited))?;
        }
        Ok(gate)
    }

    /// Whether a plan makes the reference's decisions wherever its class certifies them, and any are; `None` where it
    /// was not looked at.
    pub(in crate::sweep) fn answers_alike(&self, plan: &Plan) -> Option<bool> {
        let (agreeing, decisions) = self.cache.known_gate(plan)?.agreeing?;
        Some(decisions > 0 && agreeing == decisions)
    }

    /// Whether the gate of a plan looks at decoding only.
    pub(in crate::sweep) fn looks_at_decode_only(&self, plan: &Plan) -> bool {
        self.gates_are_narrow && changes_only_decode(&self.default, plan)
    }

    /// Whether a plan passes the gate; one that there is no time for does not.
    pub(in crate::sweep) fn passes(&mut self, plan: &Plan, candidate: &Candidate) -> Result<bool, SweepError> {
        let gate = self.cache.gate(plan, self.looks_at_decode_only(plan));
        self.has_passed(gate, plan, candidate)
    }

    /// Whether there is time for a gate of long prompts and full batches.
    pub(in crate::sweep) fn has_extended_gate(&self) -> bool {
        !self.problem.limits.is_cpu && !self.gates_are_narrow
    }

    /// Whether a plan passes the gate of long prompts and full batches too. Where a CPU runs the kernels, or steps are
    /// slow, these take minutes, and a short search has seconds for a plan that reads prompts by the default's kernels:
    /// the plan then says how far it was checked.
    pub(in crate::sweep) fn passes_extended(&mut self, plan: &Plan, candidate: &Candidate) -> Result<bool, SweepError> {
        if !self.has_extended_gate() {
            return Ok(true);
        }
        let only_decode = self.ends.is_short && changes_only_decode(&self.default, plan);
        let gate = self.cache.extended_gate(plan, only_decode);
        self.has_passed(gate, plan, candidate)
    }

    fn has_passed(
        &mut self,
        gate: Result<Gate, TrialError>,
        plan: &Plan,
        candidate: &Candidate,
    ) -> Result<bool, SweepError> {
        let candidate = candidate.clone();
        match gate {
            Ok(gate) if gate.passed => return Ok(true),
            Ok(gate) => self.done(SweepStep::Wrong { candidate, detail: gate.detail })?,
            Err(TrialError::Failed(reason)) => self.done(SweepStep::NotRun { candidate, why: reason.to_string() })?,
            Err(TrialError::OutOfTime) => self.leave_untried(vec![candidate.to_string()], plan)?,
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    /// Takes out what rounds too much for this model, the least precise first, so that the other kernels are still
    /// compared.
    pub(in crate::sweep) fn drop_imprecise(&mut self, plan: &mut Plan) -> Result<(), SweepError> {
        let catalogue = Arc::clone(&self.options.catalogue);
        while plan.least_precise(&catalogue) > Precision::F32 {
            let only_decode = self.looks_at_decode_only(plan);
            let detail = match self.cache.gate(plan, only_decode) {
                Ok(gate) if gate.passed => break,
                Ok(gate) => gate.detail,
                Err(TrialError::Failed(reason)) => reason.to_string(),
                Err(TrialError::OutOfTime) => break,
                Err(error) => return Err(error.into()),
            };
            let least = plan.least_precise(&catalogue);
            plan.choices.retain(|c| c.precision(&catalogue) < least);
            plan.precision = Precision::F32;
            plan.state = StateFormat::F32;
            self.note(Note::Dropped { precision: least, detail })?;
        }
        Ok(())
    }
}
