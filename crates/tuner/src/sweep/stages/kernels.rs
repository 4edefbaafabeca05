//! Kernels, alone, on values that are stored as in a pass: what each kind of op instance costs, and which kernel is the
//! fastest for it.

use super::control::Control;
use crate::kernel_tuning::{KernelTuner, TunedKernel};
use crate::sweep::ends::share_of;
use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use crate::sweep::{Note, Stage, SweepError, SweepStep};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_kernels::plan::Choice;
use wgoose_kernels::{Plan, bucket, ops};
use wgoose_measure::ledger::UNTRIED;
use wgoose_measure::objective::Objective;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// The share of its time that a kernel must still have to win, by what the device was seen to do, to be tuned longer.
const ROOM: f64 = 0.03;

/// What kernels of matrix units were seen to compute, as a share of what others of them might: memory is soon read as
/// fast as it can be, and no kernel is known to compute as fast as that.
const COMPUTED: f64 = 0.8;

/// The share of the budget in which kernels of long passes are tried in short ones.
const SHORTER: f64 = 0.02;

/// What runs beside a megakernel counts as such a share of decoding at the least: it is searched nowhere else.
const BESIDE: f64 = 0.5;

/// The share of what a prompt's pass reads and writes from which an op is timed.
const SMALL: f64 = 0.005;

/// How fast a kernel reads and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reached {
    /// Bytes per nanosecond.
    bytes: f64,
    /// Operations per nanosecond.
    flops: f64,
}

impl Reached {
    /// By a kernel of a site that takes so long.
    fn of(site: &InstanceGroup, ns: f64) -> Self {
        let flops = (ops::kernels(&site.instance.op).flops)(&site.instance) as f64;
        Reached { bytes: site.instance.bytes() as f64 / ns, flops: flops / ns }
    }

    /// The more of each.
    fn max(self, other: Self) -> Self {
        Reached { bytes: self.bytes.max(other.bytes), flops: self.flops.max(other.flops) }
    }

    /// How near it comes to what was reached elsewhere: of what it is nearer to.
    fn share_of(self, most: Self) -> f64 {
        let share = |own: f64, most: f64| if most > 0.0 { own / most } else { 0.0 };
        share(self.bytes, most.bytes).max(COMPUTED * share(self.flops, most.flops))
    }
}

/// What is timed alone.
struct Alone {
    /// Kinds of op instance, but for what a megakernel holds, and what of a prompt is small.
    sites: Vec<(Scenario, InstanceGroup)>,
    /// Of each pass, the bytes that these read and write, as a share of all.
    shares: Vec<(Scenario, f64)>,
    /// The ops of all passes, timed or not.
    ops: BTreeSet<String>,
}

/// Puts the kernels that won into a plan, the costliest kind of op instance first. Variants that the user brought along
/// and whose op is in no pass of the plan, by name.
pub(in crate::sweep) fn kernels(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
) -> Result<Vec<String>, SweepError> {
    let Alone { mut sites, shares, ops } = alone(trials.task(), plan);
    let without_op = leave_without_op(trials, &ops, plan)?;
    // Time may end before all defaults are timed. Ops for which the user brought kernels or seeds come first, and
    // are timed however short it is; then what reads and writes the most.
    let brought = trials.task().brought();
    let is_brought = |group: &InstanceGroup| brought.contains(&group.key.op);
    sites.sort_by_key(|(_, group)| Reverse((is_brought(group), group.bytes())));
    if trials.is_short() && plan.persistent.is_some() {
        // A prompt whose kernels are those of the default need not be compared.
        let (brought, untried): (Vec<_>, Vec<_>) = sites.into_iter().partition(|(_, group)| is_brought(group));
        if !untried.is_empty() {
            trials.leave_untried(vec![format!("kernels of {} kinds of op instance", untried.len())], plan)?;
        }
        if brought.is_empty() {
            return Ok(without_op);
        }
        sites = brought;
    }
    trials.begin(Stage::Costs, sites.len())?;
    let control = Control::of(trials.task())?;
    let speed_before = control.time(trials)?;
    let end = trials.end(|ends| ends.kernels);
    let (mut costs, mut untried) = (Vec::new(), 0);
    for (scenario, group) in sites {
        if trials.spent() >= end && !is_brought(&group) {
            untried += 1;
            continue;
        }
        let ns = tuner.default_ns(&group, trials.jobs())?;
        trials.done(SweepStep::cost(&group, ns))?;
        costs.push((ns * f64::from(group.count), scenario, group));
    }
    if untried > 0 {
        trials.leave_untried(vec![format!("kernels of {untried} kinds of op instance")], plan)?;
    }
    let sites = weighed(trials.task(), costs, &shares);
    trials.begin(Stage::Kernels, sites.len())?;
    let half = trials.spent() + trials.left(|ends| ends.kernels) / 2;
    let tuned = round(trials, tuner, &sites, &vec![None; sites.len()], half)?;
    // What is left of the time goes to those that are furthest from what the device was seen to do.
    let reached = |group: &InstanceGroup, ns: f64| Reached::of(group, ns);
    let most = sites.iter().zip(&tuned).map(|((_, group), tuned)| reached(group, tuned.best_ns));
    let most = most.fold(Reached::default(), Reached::max);
    let (mut left, mut found) = (Vec::new(), Vec::new());
    for ((share, group), tuned) in sites.into_iter().zip(tuned) {
        let room = 1.0 - reached(&group, tuned.best_ns).share_of(most);
        if room < ROOM || trials.spent() >= end {
            found.push((group, tuned));
        } else {
            left.push((share * tuned.best_ns / tuned.default_ns * room, group, tuned.winner));
        }
    }
    left.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !left.is_empty() {
        trials.begin(Stage::Kernels, left.len())?;
    }
    let (left, won): (Vec<_>, Vec<_>) = left.into_iter().map(|(share, group, won)| ((share, group), won)).unzip();
    let trying = share_of(trials.task().budget(), SHORTER);
    let second = round(trials, tuner, &left, &won, end.saturating_sub(trying))?;
    found.extend(left.into_iter().map(|(_, group)| group).zip(second));
    let tuned_at = trials.spent();
    let mut said = BTreeSet::new();
    for (group, tuned) in found {
        if let Some(choice) = tuned.winner {
            keep_shorter(trials, tuner, plan, (&group, &choice), end.max(tuned_at) + trying)?;
            plan.adopt(choice);
        }
        for error in tuned.broken {
            if said.insert(error.to_string()) {
                trials.note(Note::BrokenVariant(error))?;
            }
        }
    }
    control.report_drift(trials, &speed_before)?;
    Ok(without_op)
}

/// What is timed alone of the passes that people run.
fn alone(task: Task<'_>, plan: &Plan) -> Alone {
    let brought = task.brought();
    let mut alone = Alone { sites: Vec::new(), shares: Vec::new(), ops: BTreeSet::new() };
    for (scenario, groups) in task.timed_passes(plan) {
        let whole = groups.iter().map(InstanceGroup::bytes).sum::<u64>() as f64;
        let mut timed = 0.0;
        for group in groups {
            alone.ops.insert(group.key.op.clone());
            // What a megakernel holds was tuned there. The head sees one row in decode and in prefill.
            let is_merged = plan.persistent.is_some() && scenario == Scenario::DECODE && group.in_layers;
            let share = group.bytes() as f64 / whole;
            let is_small = scenario.tokens > 1 && share < SMALL && !brought.contains(&group.key.op);
            if !is_merged && !is_small && !alone.sites.iter().any(|(_, known)| known.key == group.key) {
                timed += share;
                alone.sites.push((scenario, group));
            }
        }
        alone.shares.push((scenario, timed.max(BESIDE)));
    }
    alone
}

/// Sites by the share of the time that they have, the largest first. Scenarios weigh what the objective says, however
/// long they are, and sites what they take of what is timed of them.
fn weighed(
    task: Task<'_>,
    costs: Vec<(f64, Scenario, InstanceGroup)>,
    shares: &[(Scenario, f64)],
) -> Vec<(f64, InstanceGroup)> {
    // Of prompts the longest alone is timed; each batch stands for itself.
    let kind = |scenario: &Scenario| match scenario {
        Scenario { tokens: 1, sequences, .. } => (false, *sequences),
        scenario => (scenario.from_start, 0),
    };
    let per_ns = |scenario: &Scenario| {
        let total: f64 = costs.iter().filter(|(_, other, _)| other == scenario).map(|(ns, ..)| ns).sum();
        let alike = task.options.objective.shares().filter(|(other, _)| kind(other) == kind(scenario));
        let weight: f64 = alike.map(|(_, share)| share).sum();
        let timed = shares.iter().find(|(other, _)| other == scenario).map_or(1.0, |(_, share)| *share);
        timed * weight / total.max(1.0)
    };
    let weights: Vec<f64> = costs.iter().map(|(ns, scenario, _)| ns * per_ns(scenario)).collect();
    let mut sites: Vec<(f64, InstanceGroup)> =
        weights.into_iter().zip(costs).map(|(weight, (.., group))| (weight, group)).collect();
    sites.sort_by(|a, b| b.0.total_cmp(&a.0));
    sites
}

/// Keeps the default kernel in shorter passes of prompts, where what won in a long one is not faster.
fn keep_shorter(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    (group, won): (&InstanceGroup, &Choice),
    end: Duration,
) -> Result<(), SweepError> {
    for rows in shorter_passes(&trials.options().objective, plan.prefill_chunk) {
        let shorter = group.with_rows(rows).filter(|shorter| shorter.key.up_to_rows < group.key.up_to_rows);
        let Some(shorter) = shorter.filter(|_| group.instance.rows > 1) else { continue };
        if let Some(default) = tuner.default_unless_faster(&shorter, trials.jobs(), won, end)? {
            plan.adopt(default);
        }
    }
    Ok(())
}

/// Tokens of the passes in which prompts are read, and of what is left of them; of those in a bucket the most.
fn shorter_passes(objective: &Objective, chunk: u32) -> Vec<u32> {
    let mut passes: BTreeMap<u32, u32> = BTreeMap::new();
    let prompts = objective.prompts();
    for rows in prompts.iter().flat_map(|prompt| [prompt.tokens.min(chunk), prompt.tokens % chunk]) {
        let most = passes.entry(bucket(rows)).or_default();
        *most = rows.max(*most);
    }
    passes.into_values().filter(|rows| *rows > 1).collect()
}

/// Says which ops are in no pass of a plan: their kernels are not tried, even those that the user brought along, which
/// are named.
fn leave_without_op(
    trials: &mut Trials<'_>,
    present: &BTreeSet<String>,
    plan: &Plan,
) -> Result<Vec<String>, SweepError> {
    let catalogue = &trials.options().catalogue;
    let ops: Vec<String> = ops::ALL.iter().map(|op| op.name.to_owned()).filter(|op| !present.contains(op)).collect();
    let variants = ops.iter().flat_map(|op| catalogue.variants(op).iter().map(move |variant| (op, variant)));
    let brought = variants.filter(|(_, variant)| catalogue.is_brought(variant));
    let without_op = brought.map(|(op, variant)| format!("{op}/{}", variant.name())).collect();
    if !ops.is_empty() {
        trials.jobs().decide(UNTRIED, format!("no pass of the plan has these ops: {}", ops.join(", ")), plan)?;
        trials.done(SweepStep::WithoutOps(ops))?;
    }
    Ok(without_op)
}

/// Tunes kernels of sites, from those on that won before, each with its share of the time until `end`; a site that
/// needs less leaves it to those after it.
fn round(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    sites: &[(f64, InstanceGroup)],
    won: &[Option<Choice>],
    end: Duration,
) -> Result<Vec<TunedKernel>, SweepError> {
    let (begun, total) = (trials.spent(), sites.iter().map(|(share, _)| share).sum::<f64>());
    let time = end.saturating_sub(begun);
    let (mut claimed, mut tuned) = (0.0, Vec::new());
    for ((share, group), won) in sites.iter().zip(won) {
        claimed += share / total.max(1e-9);
        let deadline = begun + time.mul_f64(claimed.min(1.0));
        let found = tuner.tune_on(group, trials.jobs(), won.as_ref(), deadline)?;
        let (gain, tried) = (found.default_ns / found.best_ns, found.tried);
        trials.done(SweepStep::Kernel { key: group.key.clone(), winner: found.winner.clone(), gain, tried })?;
        tuned.push(found);
    }
    Ok(tuned)
}
