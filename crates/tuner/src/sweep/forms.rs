//! Forms of a merged step: other fusions, other layouts, each with stages of its own. Which form is the fastest with default kernels
//! says little of that.

use super::merged_step::{MergedStep, with};
use super::{Candidate, Sweep, SweepError};
use crate::kernel_tuning::{KernelTuner, PersistentGrid, RankedStage};
use crate::paired::Effort;
use crate::scenario::Scenario;
use crate::structure::toggle;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::{TuningKey, bindable_fusions};

/// The share of a form's time that goes into its stages; the rest compiles and compares it.
const STAGES: f64 = 0.6;

/// One thing in which a form differs from the incumbent.
struct Form {
    name: String,
    plan: Plan,
    /// What it must not slow down.
    scenarios: Vec<Scenario>,
}

impl Sweep<'_> {
    /// Tries what differs from the merged step in one fusion or one layout, each with the stages that this takes.
    pub(super) fn forms(
        &mut self,
        tuner: &KernelTuner<'_>,
        plan: &mut Plan,
        grid: PersistentGrid,
    ) -> Result<(), SweepError> {
        let count = self.forms_of(plan).len();
        let mut untried = Vec::new();
        for i in 0..count {
            // What won changes what the others are.
            let Some(form) = self.forms_of(plan).into_iter().nth(i) else { break };
            let share = self.left(self.ends.forms) / (count - i) as u32;
            if share.is_zero() {
                untried.push(form.name);
                continue;
            }
            let name = Candidate::Change(form.name);
            let Some(candidate) = self.with_stages(tuner, plan, &form.plan, grid, share.mul_f64(STAGES))? else {
                continue;
            };
            if self.is_screened_out([plan, &candidate], Scenario::DECODE, &name)? {
                continue;
            }
            let effort = Effort::fine(share.mul_f64(1.0 - STAGES));
            self.challenge(plan, candidate, &form.scenarios, effort, name)?;
        }
        self.leave_untried(untried, plan)
    }

    /// All that differs from a plan in one thing.
    fn forms_of(&self, plan: &Plan) -> Vec<Form> {
        let mut forms = Vec::new();
        for fusion in bindable_fusions(&self.problem.shape, &self.problem.limits) {
            let mut other = plan.clone();
            toggle(&mut other.fusions.decode, fusion);
            let verb = if plan.fusions.decode.contains(&fusion) { "without" } else { "with" };
            let name = format!("merged, {verb} {fusion}");
            forms.push(Form { name, plan: other, scenarios: vec![Scenario::DECODE] });
        }
        for format in self.problem.layouts().interleaved {
            let mut other = plan.clone();
            let is_interleaved = !other.interleave.remove(&format);
            if is_interleaved {
                other.interleave.insert(format);
            }
            let name = format!("merged, {format} {}", if is_interleaved { "interleaved" } else { "as in the file" });
            forms.push(Form { name, plan: other, scenarios: self.options.objective.scenarios() });
        }
        forms
    }

    /// A form with stages: those of the plan where it has the same, else what is found for them in that time. `None` if it has none.
    fn with_stages(
        &mut self,
        tuner: &KernelTuner<'_>,
        plan: &Plan,
        form: &Plan,
        grid: PersistentGrid,
        time: Duration,
    ) -> Result<Option<Plan>, SweepError> {
        let step = MergedStep::of(self.problem, form, grid);
        let known = |key: &TuningKey| plan.choices.iter().find(|choice| choice.key == *key).cloned();
        let is_new: Vec<bool> = step.groups.iter().map(|group| known(&group.key).is_none()).collect();
        let total: u64 = step.groups.iter().zip(&is_new).filter(|(_, new)| **new).map(|(group, _)| group.bytes()).sum();
        let mut ranked: Vec<Vec<RankedStage>> = Vec::new();
        for (group, is_new) in step.groups.iter().zip(is_new) {
            let share = if is_new { group.bytes() as f64 / total.max(1) as f64 } else { 0.0 };
            let deadline = self.memo.spent() + time.mul_f64(share);
            let begin = known(&group.key);
            ranked.push(tuner.best_stages(group, &mut self.memo, grid, (begin.as_ref(), deadline))?);
        }
        if ranked.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        Ok(self.together(&step.groups, &ranked)?.map(|best| with(form, best)))
    }
}
