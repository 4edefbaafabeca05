//! Moves on a merged step: another kernel for one of its stages, or for what runs beside them, timed in the step itself. Which is the
//! fastest there is not what is the fastest alone: a boundary between two dispatches costs what none between stages does.

use super::merged_step::{MergedStep, in_turn, is_like, runners_up, with};
use super::{Candidate, Ended, Step, Sweep, SweepError};
use crate::kernel_tuning::KernelTuner;
use crate::memo::TrialError;
use crate::paired::Effort;
use crate::scenario::Scenario;
use crate::space::InstanceGroup;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;

/// Plans that are compiled at once.
const AHEAD: usize = 12;

/// Time for a comparison of two merged steps.
const COMPARISON: Duration = Duration::from_millis(2500);

/// A move that a few samples say is faster by so much may be worth a comparison: what two instances of one plan differ by.
pub(super) const PROMISING: f64 = 0.004;

/// Moves that are compared in a round, if none of them wins.
const COMPARED: usize = 3;

/// The share of what is left that goes into a search for kernels of what runs beside the layers.
const BESIDE: f64 = 0.1;

impl Sweep<'_> {
    /// Changes kernels of the merged step for as long as there is time: in each round all that is one tunable away from what is
    /// best now, and what was fast alone. Where none is faster, more is looked for.
    pub(super) fn merged(
        &mut self,
        tuner: &KernelTuner<'_>,
        plan: &mut Plan,
        step: &MergedStep,
        mut moves: Vec<Choice>,
    ) -> Result<(), SweepError> {
        let deadline = self.end(self.ends.merged);
        moves.retain(|choice| step.has(choice));
        moves.extend(self.beside(tuner, step)?);
        let mut tried: Vec<Choice> = Vec::new();
        while self.memo.spent() < deadline {
            moves.extend(self.near(tuner, plan, step)?);
            moves.retain(|choice| !tried.contains(choice) && !plan.choices.contains(choice));
            if moves.is_empty() {
                moves = self.more(tuner, plan, step)?;
                moves.retain(|choice| !tried.contains(choice) && !plan.choices.contains(choice));
                if moves.is_empty() {
                    break;
                }
            }
            let promising = self.screened(plan, step, &moves, &mut tried)?;
            // Once more on top of what wins now.
            moves = self.adopt(plan, step, promising)?;
            tried.retain(|choice| !moves.contains(choice));
        }
        Ok(())
    }

    /// The fastest kernels of what runs beside the layers.
    fn beside(&mut self, tuner: &KernelTuner<'_>, step: &MergedStep) -> Result<Vec<Choice>, SweepError> {
        let begun = self.memo.spent();
        let time = self.left(self.ends.merged).mul_f64(BESIDE);
        let total = step.beside.iter().map(InstanceGroup::bytes).sum::<u64>().max(1) as f64;
        let (mut claimed, mut found) = (0, Vec::new());
        for group in &step.beside {
            claimed += group.bytes();
            found.push(tuner.ranked(group, &mut self.memo, begun + time.mul_f64(claimed as f64 / total))?);
        }
        Ok(in_turn(&found))
    }

    /// All that is one tunable away from what the plan has.
    fn near(&mut self, tuner: &KernelTuner<'_>, plan: &Plan, step: &MergedStep) -> Result<Vec<Choice>, SweepError> {
        let mut near = Vec::new();
        for (i, group) in step.groups.iter().enumerate() {
            // The first layer's instances follow the others'.
            let is_known = step.groups[..i].iter().any(|other| is_like(other, group));
            let Some(own) = plan.choices.iter().find(|own| own.key == group.key).filter(|_| !is_known) else {
                continue;
            };
            near.push(tuner.stages_near(group, &mut self.memo, step.grid, own)?);
        }
        Ok(in_turn(&near))
    }

    /// Stages that were not measured yet, for half of the time that is left: what is found must still be tried.
    fn more(&mut self, tuner: &KernelTuner<'_>, plan: &Plan, step: &MergedStep) -> Result<Vec<Choice>, SweepError> {
        let (begun, time) = (self.memo.spent(), self.left(self.ends.merged) / 2);
        let total = step.groups.iter().map(InstanceGroup::bytes).sum::<u64>().max(1) as f64;
        let (mut claimed, mut found) = (0, Vec::new());
        for group in &step.groups {
            claimed += group.bytes();
            let until = begun + time.mul_f64(claimed as f64 / total);
            let now = plan.choices.iter().find(|choice| choice.key == group.key);
            let ranked = tuner.best_stages(group, &mut self.memo, step.grid, (now, until))?;
            found.push(runners_up(ranked));
        }
        Ok(in_turn(&found))
    }

    /// The moves that a few samples say are faster, the fastest first.
    fn screened(
        &mut self,
        plan: &Plan,
        step: &MergedStep,
        moves: &[Choice],
        tried: &mut Vec<Choice>,
    ) -> Result<Vec<Choice>, SweepError> {
        let deadline = self.end(self.ends.merged);
        let (mut screened, mut promising) = (0, Vec::new());
        for batch in moves.chunks(AHEAD) {
            if self.memo.spent() >= deadline {
                break;
            }
            let moved = batch.iter().map(|choice| self.moved(plan, step, std::slice::from_ref(choice)));
            let plans: Vec<Plan> = moved.collect::<Result<_, _>>()?;
            self.memo.prepare(&plans)?;
            for (choice, candidate) in batch.iter().zip(&plans) {
                if self.memo.spent() >= deadline {
                    break;
                }
                tried.push(choice.clone());
                screened += 1;
                // What does not run is no move.
                if let Some(gain) = self.screened_gain([plan, candidate], Scenario::DECODE)?
                    && gain > PROMISING
                {
                    promising.push((gain, choice.clone()));
                }
            }
        }
        promising.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        self.done(Step::Moves { screened, promising: promising.len() })?;
        Ok(promising.into_iter().map(|(_, choice)| choice).collect())
    }

    /// What a few samples say that a candidate gains on a plan, as a log ratio; `None` if one does not run, or there is no time.
    pub(super) fn screened_gain(&mut self, pair: [&Plan; 2], scenario: Scenario) -> Result<Option<f64>, SweepError> {
        match self.memo.screen(pair, scenario) {
            Err(TrialError::Failed(_) | TrialError::OutOfTime) => Ok(None),
            found => Ok(Some(found?.log_ratio)),
        }
    }

    /// Makes the promising moves: the best of each stage at once, else the best of all alone. Those that are left.
    fn adopt(
        &mut self,
        plan: &mut Plan,
        step: &MergedStep,
        mut promising: Vec<Choice>,
    ) -> Result<Vec<Choice>, SweepError> {
        let mut best: Vec<Choice> = Vec::new();
        for choice in &promising {
            if best.iter().all(|other| other.key != choice.key) {
                best.push(choice.clone());
            }
        }
        let alone: Vec<Vec<Choice>> = promising.iter().take(COMPARED).map(|choice| vec![choice.clone()]).collect();
        let together = (best.len() > 1).then_some(best);
        for moves in together.into_iter().chain(alone) {
            let candidate = self.moved(plan, step, &moves)?;
            let name = Candidate::Move(moves.clone());
            let effort = Effort::fine(COMPARISON);
            if self.challenge(plan, candidate, &[Scenario::DECODE], effort, name)? == Ended::Won {
                promising.retain(|choice| !moves.contains(choice));
                return Ok(promising);
            }
        }
        Ok(Vec::new())
    }

    /// A plan with other kernels for some stages, the first layer's among them.
    fn moved(&self, plan: &Plan, step: &MergedStep, choices: &[Choice]) -> Result<Plan, SweepError> {
        let mut everywhere = choices.to_vec();
        for choice in choices {
            let Some(own) = step.groups.iter().find(|group| group.key == choice.key) else { continue };
            for other in step.groups.iter().filter(|other| other.key != own.key && is_like(own, other)) {
                everywhere.push(choice.for_key(other.key.clone(), &self.options.catalogue)?);
            }
        }
        Ok(with(plan, everywhere))
    }
}
