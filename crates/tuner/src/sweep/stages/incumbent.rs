//! The plan that the device runs the model with today. It stays unless another is faster in something and slower in
//! nothing: tuning makes nothing worse, and two tunings of one machine come to the same bits where nothing faster was
//! found meanwhile.

use crate::sweep::ends::{share_of, working};
use crate::sweep::stages::merged::COMPARISON;
use crate::sweep::{Candidate, Ended, Part, Stage, Sweep, SweepError, SweepOptions};
use std::collections::BTreeSet;
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Plan, bucket};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::paired::Effort;
use wgoose_measure::problem::Problem;

/// The share of the budget in which the plan in use is compared with the default.
const CHECK: f64 = 0.2;

/// The plan in use of a sweep that decides on whole plans; `None` where it is the default.
pub(in crate::sweep) fn of(problem: &Problem, options: &SweepOptions) -> Option<Plan> {
    let plan = options.in_use.clone().filter(|_| Part::ALL.iter().all(|part| options.parts.contains(part)))?;
    let plan = Plan { evidence: None, ..plan.at_most(options.allowed, &options.catalogue) };
    let is_for_here = plan.device == problem.default.device && plan.model == problem.shape;
    (is_for_here && plan.hash() != problem.default.hash()).then_some(plan)
}

impl Sweep<'_> {
    /// Compares the plan in use with the default, unless the ledger has that. If it is slower in something or faster in
    /// nothing, it is in use no more; if there is no time for that, it stays.
    pub(in crate::sweep) fn compare_in_use(&mut self) -> Result<(), SweepError> {
        let Some(plan) = self.in_use.take() else { return Ok(()) };
        let policy = Policy { allowed: self.options.allowed, without: BTreeSet::new() };
        let derived = derive(self.cache.records(), &self.options.catalogue, &self.options.objective, &policy);
        if derived.is_ok_and(|derived| derived.plan.evidence.is_some() && derived.plan.hash() == plan.hash()) {
            self.in_use = Some(plan);
            return Ok(());
        }
        self.begin(Stage::InUse, 1)?;
        let scenarios = self.options.objective.scenarios();
        let allowance = share_of(working(self.options.budget), CHECK) / (2 * scenarios.len().max(1)) as u32;
        let mut best = self.default.clone();
        let ended =
            self.challenge(&mut best, plan, &scenarios, Effort::usual(allowance.min(COMPARISON)), Candidate::InUse)?;
        self.in_use = (ended == Ended::Won).then_some(best);
        self.is_unjudged = self.in_use.is_none() && self.is_over();
        Ok(())
    }

    /// Takes the plan in use through the gate.
    pub(in crate::sweep) fn gate_in_use(&mut self) -> Result<(), SweepError> {
        let Some(plan) = self.in_use.clone() else { return Ok(()) };
        if !self.passes(&plan, &Candidate::InUse)? || !self.passes_extended(&plan, &Candidate::InUse)? {
            self.in_use = None;
            self.is_unjudged = self.is_over();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.cache.spent() >= working(self.options.budget)
    }

    /// The better one of a plan that was found and the plan in use, if there is one. What decodes faster but reads
    /// prompts more slowly may have the prompts of the plan in use.
    pub(in crate::sweep) fn against_in_use(
        &mut self,
        found: &Plan,
        effort: Effort,
    ) -> Result<Option<(Plan, Candidate)>, SweepError> {
        let Some(in_use) = self.in_use.clone().filter(|in_use| in_use.hash() != found.hash()) else { return Ok(None) };
        if found.hash() == self.default.hash() {
            return Ok(Some((in_use, Candidate::InUse)));
        }
        let scenarios = self.options.objective.scenarios();
        let one_row = bucket(1);
        let of_decode = found.choices.iter().filter(|choice| choice.key.up_to_rows == one_row);
        let of_prompts = in_use.choices.iter().filter(|choice| choice.key.up_to_rows != one_row);
        let beside = Plan {
            prefill_chunk: in_use.prefill_chunk,
            fusions: Fusions { decode: found.fusions.decode.clone(), ..in_use.fusions.clone() },
            choices: of_decode.chain(of_prompts).cloned().collect(),
            ..found.clone()
        };
        let mut best = in_use;
        for (plan, name) in [(found.clone(), Candidate::Winners), (beside, Candidate::DecodeBesideInUse)] {
            if self.is_screened_out([&best, &plan], scenarios[0], &name)? {
                break;
            }
            match self.challenge(&mut best, plan, &scenarios, effort, name.clone())? {
                Ended::Won => return Ok(Some((best, name))),
                Ended::Lost => {}
                // It is as fast.
                Ended::Open => break,
            }
        }
        Ok(Some((best, Candidate::InUse)))
    }
}
