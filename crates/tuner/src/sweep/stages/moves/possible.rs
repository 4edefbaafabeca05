//! The moves that are possible, and the expected gain of each.

use super::fitting::LEAST;
use super::sites::{new_sites, sites};
use super::{Move, What, with_structure_of};
use crate::kernel_tuning::KernelTuner;
use crate::sweep::Part;
use crate::sweep::changes::Change;
use crate::sweep::task::Task;
use wgoose_kernels::Plan;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// What other kernels for a scenario may gain, as a logarithm.
const KERNELS: f64 = 0.2;

/// What a layout of the matrices that a step reads may gain, where it is of all of them.
const LAYOUT: f64 = 0.3;

/// What another chunk may gain.
const CHUNK: f64 = 0.05;

/// What a plan may gain that is known to be fast on a device of this maker.
const KNOWN: f64 = 0.4;

/// What a fusion may gain, beside the time between dispatches.
const FUSION: f64 = 0.02;

/// The part of the time between the dispatches that a fusion leaves out that it may gain: the fused kernel may be
/// slower.
const HOPE: f64 = 0.5;

/// All that can be changed.
pub(in crate::sweep) fn all_moves(task: Task<'_>, tuner: &KernelTuner<'_>, best: &Plan) -> Vec<Move> {
    let objective = &task.options.objective;
    let mut moves = Vec::new();
    if task.decides(Part::Kernels) {
        let kernels = |scenario| Move { what: What::Kernels, scenario, gain: KERNELS };
        moves.extend(objective.scenarios().into_iter().map(kernels));
    }
    let known = known_plan(task, tuner, best).filter(|_| objective.decodes() && task.decides_all());
    moves.extend(known.map(|plan| Move { what: What::Known(plan), scenario: Scenario::DECODE, gain: KNOWN }));
    for change in task.changes(best) {
        let Some(scenario) = change.scenarios.first().copied() else { continue };
        moves.push(Move { scenario, gain: guess(task, best, &change, scenario), what: What::Change(change) });
    }
    moves
}

/// What fusions of decode may gain, once it is known what a step takes beside its kernels: a fusion that leaves out
/// dispatches leaves out what lies between them.
pub(in crate::sweep) fn guess_fusions(task: Task<'_>, results: &ResultCache<'_>, best: &Plan, moves: &mut [Move]) {
    let samples = results.samples();
    let Some((step_ns, _)) = samples.get(&Scenario::DECODE).copied() else { return };
    let decode = sites(task, best, Scenario::DECODE);
    let kernels_ns: f64 = decode.iter().map(|site| fastest_ns(results, site) * f64::from(site.count)).sum();
    let dispatches = |sites: &[InstanceGroup]| f64::from(sites.iter().map(|site| site.count).sum::<u32>());
    let all = dispatches(&decode);
    let between = (1.0 - kernels_ns / step_ns).clamp(0.0, 1.0) / all.max(1.0);
    for other in moves {
        let Move { what: What::Change(change), scenario: Scenario::DECODE, gain } = other else { continue };
        if change.part == Part::Fusions && *gain > LEAST {
            let mut changed = best.clone();
            (change.apply)(&mut changed);
            let saved = all - dispatches(&sites(task, &changed, Scenario::DECODE));
            *gain = (FUSION + HOPE * saved * between).max(LEAST);
        }
    }
}

/// Median nanoseconds of the fastest kernel that was timed for an op instance; none where none was.
fn fastest_ns(results: &ResultCache<'_>, site: &InstanceGroup) -> f64 {
    let timed = results.timed(site).into_iter().map(|(_, ns)| ns);
    timed.min_by(f64::total_cmp).unwrap_or_default()
}

/// What a change may gain in its first scenario.
fn guess(task: Task<'_>, best: &Plan, change: &Change, scenario: Scenario) -> f64 {
    match change.part {
        Part::Layouts => {
            let mut changed = best.clone();
            (change.apply)(&mut changed);
            let after = sites(task, &changed, scenario);
            let all: u64 = after.iter().map(InstanceGroup::bytes).sum();
            let new = new_sites(task, best, &changed, scenario);
            LAYOUT * new.iter().map(InstanceGroup::bytes).sum::<u64>() as f64 / all.max(1) as f64
        }
        Part::Chunk => CHUNK,
        _ => FUSION,
    }
}

/// Of the plans for devices of this maker the one that has kernels for the most op instances of decode.
fn known_plan(task: Task<'_>, tuner: &KernelTuner<'_>, best: &Plan) -> Option<Box<Plan>> {
    let counted = task.options.hints.iter().filter(|hint| hint.persistent.is_none()).map(|hint| {
        let own = std::slice::from_ref(hint);
        let tuner = tuner.with_hints(own);
        let sites = sites(task, &with_structure_of(task, best, hint), Scenario::DECODE);
        (sites.iter().filter(|site| !tuner.hints_for(&site.key).is_empty()).count(), hint)
    });
    let (sites, plan) = counted.max_by_key(|(sites, _)| *sites)?;
    (sites > 0).then(|| Box::new(plan.clone()))
}
