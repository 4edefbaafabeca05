//! A step whose layers are one kernel, and the lists of choices that a search for its kernels goes through.

use super::Problem;
use crate::kernel_tuning::{KEPT, PersistentGrid, RankedStage};
use crate::scenario::Scenario;
use crate::space::{InstanceGroup, groups};
use std::cmp::Reverse;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;

/// A step whose layers are one kernel.
pub(super) struct MergedStep {
    /// Its stages, those first that read the most.
    pub(super) groups: Vec<InstanceGroup>,
    /// What runs before and after the layers.
    pub(super) beside: Vec<InstanceGroup>,
    /// The grid.
    pub(super) grid: PersistentGrid,
}

impl MergedStep {
    /// That of a plan.
    pub(super) fn of(problem: &Problem, plan: &Plan, grid: PersistentGrid) -> Self {
        let all = groups(&problem.shape, Scenario::DECODE, &plan.fusions.decode, &problem.formats_on_gpu(plan));
        let (mut groups, beside): (Vec<_>, Vec<_>) = all.into_iter().partition(|group| group.in_layers);
        groups.sort_by_key(|group| Reverse(group.bytes()));
        MergedStep { groups, beside, grid }
    }

    /// Whether it has an op instance that a choice is for.
    pub(super) fn has(&self, choice: &Choice) -> bool {
        self.groups.iter().chain(&self.beside).any(|group| group.key == choice.key)
    }
}

/// Whether instances differ in no more than an operand that the first layer lacks.
pub(super) fn is_like(a: &InstanceGroup, b: &InstanceGroup) -> bool {
    (&a.key.op, a.key.k, a.key.m, a.key.up_to_rows) == (&b.key.op, b.key.k, b.key.m, b.key.up_to_rows)
}

/// Those that came next, as many as are looked at again.
pub(super) fn runners_up(ranked: Vec<RankedStage>) -> Vec<Choice> {
    ranked.into_iter().take(KEPT).map(|stage| stage.choice).collect()
}

/// The first of each list, then the second of each, and so on.
pub(super) fn in_turn(lists: &[Vec<Choice>]) -> Vec<Choice> {
    let most = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|i| lists.iter().filter_map(move |list| list.get(i).cloned())).collect()
}

/// A plan with other choices for some keys.
pub(super) fn with(plan: &Plan, choices: Vec<Choice>) -> Plan {
    let mut plan = plan.clone();
    choices.into_iter().for_each(|choice| plan.adopt(choice));
    plan
}
