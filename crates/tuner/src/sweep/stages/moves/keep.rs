//! Whether a plan is the best now: compared with the best and with the default, and right.

use crate::sweep::stages::moves::possible::Move;
use crate::sweep::strategies::incremental::Climb;
use crate::sweep::{Candidate, Event, SweepError, SweepStep, Timed, tell};
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_measure::paired::{Effort, PairedResult};
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::sequential::Question;
use wgoose_measure::stats::verdict::Verdict;

impl Climb<'_, '_, '_> {
    /// Compares a plan with the best, then with the default, in the scenario that it must speed up; it is the best then
    /// if it is slower in none of the others that it changes, and right.
    pub(in crate::sweep) fn keep(
        &mut self,
        plan: Plan,
        made: &Move,
        candidate: Candidate,
    ) -> Result<Option<f64>, SweepError> {
        if plan.hash() == self.best.hash() {
            return Ok(None);
        }
        let (best, default, scenario) = (self.best.clone(), self.sweep.default.clone(), made.scenario);
        let (usual, mut timed) = (Effort::usual(Duration::ZERO), Vec::new());
        let faster = usual.asking(Question::IsFaster);
        let first = self.compare([&best, &plan], scenario, false, faster, &mut timed, &candidate)?;
        let Some(first) = first.filter(is_fast) else { return self.lost(candidate, timed) };
        // Other samples decide, and say what the plan is worth; where they take long those of the process that confirms
        // it do.
        let mut worth = first.clone();
        if self.is_compared_twice(scenario) {
            let second = self.compare([&default, &plan], scenario, true, usual, &mut timed, &candidate)?;
            let Some(second) = second.filter(is_fast) else { return self.lost(candidate, timed) };
            worth = second;
        }
        let scenarios = self.sweep.options.objective.scenarios();
        for other in scenarios.into_iter().filter(|other| *other != scenario) {
            if self.sweep.problem.run_alike([&best, &plan], other) {
                self.sweep.cache.alike(&plan, other, &best)?;
                continue;
            }
            let slower = usual.asking(Question::IsSlower);
            let result = self.compare([&default, &plan], other, false, slower, &mut timed, &candidate)?;
            if result.is_none_or(|result| result.is_surely_slower()) {
                return self.lost(candidate, timed);
            }
        }
        self.check_default()?;
        if self.is_gated_at_once(self.sweep.looks_at_decode_only(&plan)) {
            if !self.sweep.passes(&plan, &candidate)? {
                return Ok(None);
            }
            self.right = plan.clone();
        }
        self.best = plan;
        let step = SweepStep::Compared { candidate, timed };
        self.sweep.cache.decide("kept", step.to_string(), &self.best)?;
        self.sweep.done(step)?;
        tell(self.sweep.listen, Event::Best { scenario, gain: worth.comparison.log_ratio.exp() })?;
        Ok(Some(first.comparison.log_ratio))
    }

    /// That the default is right, once.
    pub(in crate::sweep) fn check_default(&mut self) -> Result<(), SweepError> {
        if !std::mem::replace(&mut self.sweep.gated, true) {
            self.sweep.check_default()?;
        }
        Ok(())
    }

    /// Says what a candidate lost by.
    fn lost(&mut self, candidate: Candidate, timed: Vec<Timed>) -> Result<Option<f64>, SweepError> {
        if !timed.is_empty() {
            let step = SweepStep::Compared { candidate, timed };
            self.sweep.cache.decide("compared", step.to_string(), &self.best)?;
            self.sweep.done(step)?;
        }
        Ok(None)
    }

    /// A comparison; `None` if one of the plans does not run, or the time is over.
    fn compare(
        &mut self,
        pair: [&Plan; 2],
        scenario: Scenario,
        held_out: bool,
        effort: Effort,
        timed: &mut Vec<Timed>,
        candidate: &Candidate,
    ) -> Result<Option<PairedResult>, SweepError> {
        match self.sweep.cache.steps(pair, scenario, held_out, effort) {
            Ok(result) => {
                let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
                timed.push(Timed { scenario, result: result.clone(), verdict });
                Ok(Some(result))
            }
            Err(TrialError::Failed(reason)) => {
                self.sweep.done(SweepStep::NotRun { candidate: candidate.clone(), why: reason.to_string() })?;
                Ok(None)
            }
            Err(TrialError::OutOfTime) => {
                self.sweep.leave_untried(vec![candidate.to_string()], &self.best)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn is_fast(result: &PairedResult) -> bool {
    result.comparison.verdict == Verdict::Fast
}
