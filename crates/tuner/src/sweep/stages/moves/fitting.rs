//! The time that a move takes, and whether it fits into the time left.

use super::sites::{new_sites, sites};
use super::{Move, Peak, What};
use crate::sweep::Part;
use crate::sweep::ends::share_of;
use crate::sweep::pace::{comparison, gate_seconds};
use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// A move that may gain less is not worth a comparison: it cannot be told from noise.
pub(in crate::sweep) const LEAST: f64 = 0.01;

/// Kernels of each kind of op instance that a move tries, about.
const KERNELS_EACH: f64 = 8.0;

/// The same where little time is left.
const FEWEST_EACH: f64 = 2.0;

/// The share of the budget that a move may spend on kernels, at the most.
const TUNING: f64 = 0.2;

/// A comparison or a gate that takes no more than this share of the budget is made after every win.
const CHEAP: f64 = 0.04;

/// A move that is worth its time.
pub(in crate::sweep) struct NextMove {
    /// Its place in the list.
    pub(in crate::sweep) at: usize,
    /// Seconds that it spends on kernels.
    pub(in crate::sweep) tuning: f64,
}

/// Of the moves that fit into the time left the one that gains the most in a second.
pub(in crate::sweep) fn most_promising(trials: &Trials<'_>, peak: &Peak, moves: &[Move]) -> Option<NextMove> {
    let (task, left) = (trials.task(), left(trials, peak));
    let mut fitting = Vec::new();
    for (at, made) in moves.iter().enumerate().filter(|(_, made)| made.gain > LEAST) {
        let fixed = comparing(trials, peak, made);
        let [least, usual] = tuning(trials, peak, made);
        let tuning = usual.min(left - fixed);
        if tuning >= least {
            let mut weight = weight(task, made.scenario);
            if made.is_of_kernels() {
                weight += others(task, peak, made).into_iter().map(|other| self::weight(task, other)).sum::<f64>();
            }
            fitting.push((NextMove { at, tuning }, made.gain * weight / (fixed + tuning)));
        }
    }
    fitting.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(next, _)| next)
}

/// How much a scenario counts, 0 to 1.
fn weight(task: Task<'_>, scenario: Scenario) -> f64 {
    let shares = task.options.objective.shares();
    shares.filter(|(other, _)| *other == scenario).map(|(_, share)| share).sum()
}

/// Seconds of a comparison in a scenario.
fn comparison_seconds(trials: &Trials<'_>, scenario: Scenario) -> f64 {
    comparison(trials.task(), trials.results(), scenario)
}

/// Seconds until the best plan must be looked at for the last time.
fn left(trials: &Trials<'_>, peak: &Peak) -> f64 {
    let Task { problem, options } = trials.task();
    // What is confirmed is compared once more, in a fresh process.
    let changed = options.objective.scenarios().into_iter();
    let changed = changed.filter(|scenario| !problem.run_alike([&problem.default, &peak.best], *scenario));
    let start = trials.results().start().unwrap_or_default().as_secs_f64();
    let confirming = changed.map(|scenario| comparison_seconds(trials, scenario)).sum::<f64>() + start;
    let is_open = peak.best.hash() != peak.right.hash();
    let open = [(!trials.is_gated()).then_some(&problem.default), is_open.then_some(&peak.best)];
    let gate = |plan| gate_seconds(trials.task(), trials.results(), trials.looks_at_decode_only(plan));
    let gates: f64 = open.into_iter().flatten().map(gate).sum();
    trials.task().budget().saturating_sub(trials.spent()).as_secs_f64() - confirming - gates
}

/// Seconds of a move's comparisons: with the best plan and the default, and in a fresh process; and of the gate.
fn comparing(trials: &Trials<'_>, peak: &Peak, made: &Move) -> f64 {
    let task = trials.task();
    let changed = made.changed(task, &peak.best);
    let others = others(task, peak, made).into_iter().map(|other| comparison_seconds(trials, other));
    let others: f64 = others.sum();
    let only_decode = made.scenario == Scenario::DECODE && trials.looks_at_decode_only(&changed);
    let times = if is_compared_twice(trials, peak, made.scenario) { 3.0 } else { 2.0 };
    // One gate is taken in the end, of whatever has won.
    let has_won = peak.best.hash() != peak.right.hash();
    let is_taken = is_gated_at_once(trials, peak, only_decode) || !has_won;
    let gate = if is_taken { gate_seconds(task, trials.results(), only_decode) } else { 0.0 };
    times * comparison_seconds(trials, made.scenario) + 2.0 * others + gate
}

/// The other scenarios that a move changes.
fn others(task: Task<'_>, peak: &Peak, made: &Move) -> Vec<Scenario> {
    let all = task.options.objective.scenarios().into_iter().filter(|other| *other != made.scenario);
    match &made.what {
        // Other prompts are read by the same kernels: those that fill the same chunk, or longer ones.
        What::Kernels => {
            let changed = sites(task, &peak.best, made.scenario);
            let is_one = |site: &InstanceGroup| changed.iter().any(|changed| changed.key == site.key);
            all.filter(|other| sites(task, &peak.best, *other).iter().any(is_one)).collect()
        }
        What::Change(change) => {
            let changed = made.changed(task, &peak.best);
            let differ = |other: &Scenario| !task.problem.run_alike([&peak.best, &changed], *other);
            all.filter(|other| change.scenarios.contains(other)).filter(differ).collect()
        }
        What::Known(_) => Vec::new(),
    }
}

/// Seconds that a move spends on kernels: at the least, and where there is time.
fn tuning(trials: &Trials<'_>, peak: &Peak, made: &Move) -> [f64; 2] {
    let task = trials.task();
    if !task.decides(Part::Kernels) {
        return [0.0; 2];
    }
    let each = trials.results().kernel_seconds();
    let changed = made.changed(task, &peak.best);
    let sites = match &made.what {
        What::Kernels => sites(task, &peak.best, made.scenario).len(),
        What::Change(_) => new_sites(task, &peak.best, &changed, made.scenario).len(),
        // Of each the default and the known kernel.
        What::Known(_) => return [2.0 * each * sites(task, &changed, made.scenario).len() as f64; 2],
    };
    let most = share_of(task.budget(), TUNING).as_secs_f64();
    [FEWEST_EACH, KERNELS_EACH].map(|kernels| (sites as f64 * kernels * each).min(most))
}

/// Whether what wins in a scenario is compared once more before it is confirmed: where that is cheap, or where the
/// first comparison was not one with the default.
pub(super) fn is_compared_twice(trials: &Trials<'_>, peak: &Peak, scenario: Scenario) -> bool {
    let (task, problem) = (trials.task(), trials.problem());
    let is_cheap = comparison_seconds(trials, scenario) <= CHEAP * task.budget().as_secs_f64();
    is_cheap || !problem.run_alike([&problem.default, &peak.best], scenario)
}

/// Whether a plan that wins now passes the gate at once: the first one, and all where that is cheap. The others do in
/// the end.
pub(super) fn is_gated_at_once(trials: &Trials<'_>, peak: &Peak, only_decode: bool) -> bool {
    let task = trials.task();
    let is_cheap = gate_seconds(task, trials.results(), only_decode) <= CHEAP * task.budget().as_secs_f64();
    is_cheap || peak.right.hash() == task.problem.default.hash()
}
