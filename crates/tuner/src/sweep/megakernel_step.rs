//! A step whose layers are one kernel.

use super::error::SweepError;
use super::task::Task;
use crate::kernel_tuning::{RankedPhase, Taken, fitting};
use std::cmp::Reverse;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;
use wgoose_measure::space::{InstanceGroup, PersistentGrid};

/// A step whose layers are one kernel.
pub(super) struct MegakernelStep {
    /// Its phases, those first that read the most.
    pub(super) groups: Vec<InstanceGroup>,
    /// What runs before and after the layers.
    pub(super) beside: Vec<InstanceGroup>,
    /// The grid.
    pub(super) grid: PersistentGrid,
}

impl MegakernelStep {
    /// That of a plan.
    pub(super) fn of(task: Task<'_>, plan: &Plan, grid: PersistentGrid) -> Self {
        let (mut groups, beside): (Vec<_>, Vec<_>) =
            task.decode_sites(plan).into_iter().partition(|group| group.in_layers);
        groups.sort_by_key(|group| Reverse(group.bytes()));
        MegakernelStep { groups, beside, grid }
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

/// The fastest phases that fit into the workgroup memory of one kernel. The first layer is a kernel of its own: there
/// are what is like them. `None` if none fit.
pub(super) fn together(
    Task { problem, options }: Task<'_>,
    groups: &[InstanceGroup],
    ranked: &[Vec<RankedPhase>],
) -> Result<Option<Vec<Choice>>, SweepError> {
    let like = |i: usize| groups[..i].iter().position(|other| is_like(other, &groups[i]));
    let of_layer: Vec<usize> = (0..groups.len()).filter(|i| like(*i).is_none()).collect();
    let mut phases: Vec<Vec<RankedPhase>> = of_layer.iter().map(|i| ranked[*i].clone()).collect();
    for (own, i) in phases.iter_mut().zip(&of_layer) {
        // Each dispatch of a layer is a phase.
        let dispatches = groups[*i].count.div_ceil(problem.shape.layers.max(1));
        own.iter_mut().for_each(|phase| phase.memory.own *= dispatches);
    }
    let counts: Vec<u32> = of_layer.iter().map(|i| groups[*i].count).collect();
    let taken: Vec<Vec<Taken>> =
        phases.iter().map(|all| all.iter().map(|phase| (phase.ns, phase.memory)).collect()).collect();
    let Some(picked) = fitting(&taken, &counts, problem.limits.workgroup_memory) else { return Ok(None) };
    let mut best: Vec<Choice> = phases.iter().zip(picked).map(|(all, i)| all[i].choice.clone()).collect();
    for (i, like) in (0..groups.len()).filter_map(|i| Some((i, like(i)?))) {
        let Some(at) = of_layer.iter().position(|own| *own == like) else { continue };
        best.push(best[at].for_key(groups[i].key.clone(), &options.catalogue)?);
    }
    Ok(Some(best))
}
