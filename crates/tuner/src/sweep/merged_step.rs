//! A step whose layers are one kernel.

use std::cmp::Reverse;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;
use wgoose_measure::problem::Problem;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::PersistentGrid;
use wgoose_measure::space::{InstanceGroup, groups};

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
}

/// Whether instances differ in no more than an operand that the first layer lacks.
pub(super) fn is_like(a: &InstanceGroup, b: &InstanceGroup) -> bool {
    (&a.key.op, a.key.k, a.key.m, a.key.up_to_rows) == (&b.key.op, b.key.k, b.key.m, b.key.up_to_rows)
}

/// How much of a search for kernels is a kind of op instance's: what it reads and writes, and something for each of
/// them, as none is so short that nothing could be won.
pub(super) fn weight(group: &InstanceGroup) -> f64 {
    group.bytes() as f64 + f64::from(group.count) * 1e6
}

/// A plan with other choices for some keys.
pub(super) fn with(plan: &Plan, choices: Vec<Choice>) -> Plan {
    let mut plan = plan.clone();
    choices.into_iter().for_each(|choice| plan.adopt(choice));
    plan
}
