//! Kernels that can be stages of persistent kernels: as one dispatch per op, and fused.

use super::find_forms::find_forms;
use super::merged::merged;
use crate::kernel_tuning::{KernelTuner, RankedStage};
use crate::sweep::forms::Forms;
use crate::sweep::merged_step::{MergedStep, is_like, together, weight, with};
use crate::sweep::task::Task;
use crate::sweep::trials::{COMPARISON, Challenge, Trials};
use crate::sweep::{Candidate, Stage, SweepError, SweepStep};
use std::cmp::Reverse;
use std::time::Duration;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::Choice;
use wgoose_kernels::{HandOver, Plan};
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::space::PersistentGrid;

/// Widths of workgroups: those that kernels of a fixed grid have.
const THREADS: [u32; 3] = [640, 512, 256];

/// Numbers of workgroups that are tried, the most first, in halves of the device's multiprocessors. Stages leave the
/// registers of a multiprocessor to one or two workgroups; whether so many run at once takes a compiled step to find
/// out.
const HALVES_OF_MULTIPROCESSORS: [u32; 3] = [4, 2, 1];

/// What values do that need no barrier.
const ANNOUNCED: &str = "values that announce themselves";

/// The share of the time for stages that goes into finding some that fit, to see how many workgroups run at once.
const PROBE: f64 = 0.15;

/// A stage that reads so many times as slowly as the fastest, and takes half of a step, is not worth a compilation:
/// there is only a naive kernel for it.
const HOPELESS: f64 = 10.0;

/// Whether one of some stages is that slow, each with the fastest kernel that was timed for it.
fn is_hopeless(timed: &[(InstanceGroup, Vec<RankedStage>)]) -> bool {
    let ns = |stages: &[RankedStage]| stages.iter().map(|stage| stage.ns).fold(f64::INFINITY, f64::min);
    let speed = |group: &InstanceGroup, stages: &[RankedStage]| group.instance.bytes() as f64 / ns(stages);
    let fastest = timed.iter().map(|(group, stages)| speed(group, stages)).fold(0.0, f64::max);
    let all_ns: f64 = timed.iter().map(|(group, stages)| ns(stages) * f64::from(group.count)).sum();
    timed.iter().any(|(group, stages)| {
        HOPELESS * speed(group, stages) < fastest && 2.0 * ns(stages) * f64::from(group.count) > all_ns
    })
}

/// What is known of how many workgroups run at once.
struct Resident {
    /// No more than so many.
    most: u32,
    /// Whether so many did.
    is_known: bool,
}

/// The stages of a width.
enum Stages {
    /// A plan for persistent kernels of the best of them, and all that were timed for each kind of op instance.
    Found(Box<Plan>, Vec<(InstanceGroup, Vec<RankedStage>)>),
    /// There are none: the reason.
    None(String),
}

/// Fuses all that can be fused in decode, finds kernels that can be stages, and compares them with the plan, as one
/// dispatch per op, then as persistent kernels. Compiling steps of many layers takes seconds; a software adapter,
/// where they are asked for, tries the plan's fusions and the last width alone.
pub(in crate::sweep) fn megakernel(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
) -> Result<(), SweepError> {
    let Task { problem, options } = trials.task();
    let is_cpu = problem.limits.is_cpu;
    let most = if is_cpu { THREADS[THREADS.len() - 1] } else { problem.limits.workgroup_threads };
    let mut widths: Vec<u32> = THREADS.into_iter().filter(|threads| *threads <= most).collect();
    trials.begin(Stage::Persistent, widths.len())?;
    if let Some(missing) = NEEDS.iter().find(|feature| !problem.limits.features.contains(feature)) {
        return trials.done(SweepStep::NotPersistent(*missing));
    }
    if !options.objective.decodes() {
        return Ok(());
    }
    if !options.persistent {
        return trials.done(SweepStep::NotWorthTrying);
    }
    let mut fused = plan.clone();
    if !is_cpu {
        fused.fusions.decode.append(&mut trials.task().bindable_fusions());
    }
    // The width comes first that known plans have for such op instances: a short search has time for one.
    let groups = MergedStep::of(trials.task(), &fused, PersistentGrid { workgroups: 1, threads: THREADS[0] }).groups;
    let hints: Vec<&Choice> = groups.iter().flat_map(|group| tuner.hints_for(&group.key)).collect();
    let has =
        |choice: &Choice, threads: u32| choice.config.get("WG").is_some_and(|width| *width == threads.to_string());
    widths.sort_by_key(|threads| Reverse(hints.iter().filter(|choice| has(choice, *threads)).count()));
    let mut resident = Resident { most: u32::MAX, is_known: false };
    let (mut untried, mut forms, mut grids, mut won) = (Vec::new(), Forms::new(), Vec::new(), false);
    for (i, threads) in widths.iter().copied().enumerate() {
        let among = if trials.is_short() { 1 } else { widths.len() - i };
        let share = trials.left(|ends| ends.stages) / among as u32;
        if share.is_zero() {
            untried.push(format!("megakernels of {threads} threads"));
            continue;
        }
        match stages(trials, tuner, &fused, (threads, share), &mut resident)? {
            Stages::Found(_, timed) if is_hopeless(&timed) => {
                let why = format!("alone they take {HOPELESS} times as long as at the speed of the fastest of them");
                trials.done(SweepStep::NoStages { threads, why })?;
            }
            Stages::Found(persistent, timed) => {
                let workgroups = persistent.persistent.unwrap_or_default();
                let grid = PersistentGrid { workgroups, threads };
                timed.into_iter().for_each(|(group, stages)| forms.add(&group, Some(grid), stages));
                let has_won = compare_both(trials, plan, *persistent, threads, share.mul_f64(0.1))? == Challenge::Won;
                // That of the best so far comes first.
                grids.insert(if has_won { 0 } else { grids.len() }, grid);
                won |= has_won;
            }
            Stages::None(why) => trials.done(SweepStep::NoStages { threads, why })?,
        }
    }
    trials.leave_untried(untried, plan)?;
    if !won {
        return Ok(());
    }
    if trials.is_short() {
        return trials.leave_untried(vec![ANNOUNCED.to_owned()], plan);
    }
    // What lies between stages decides which form is the fastest.
    announced(trials, plan)?;
    fused.hand_over = plan.hand_over;
    find_forms(trials, tuner, &mut forms, &fused, plan, &grids)?;
    merged(trials, tuner, plan, &mut forms)?;
    announced(trials, plan)
}

/// Compares the best merged step with the same in which values announce themselves, instead of waiting behind
/// barriers.
fn announced(trials: &mut Trials<'_>, plan: &mut Plan) -> Result<(), SweepError> {
    if plan.persistent.is_none() || plan.hand_over == HandOver::Announced {
        return Ok(());
    }
    let announced = Plan { hand_over: HandOver::Announced, ..plan.clone() };
    let name = Candidate::Change(ANNOUNCED.to_owned());
    trials.challenge(plan, announced, &[Scenario::DECODE], Effort::fine(COMPARISON), name)?;
    Ok(())
}

/// The best stages, of as many workgroups as run at once.
fn stages(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    fused: &Plan,
    (threads, share): (u32, Duration),
    resident: &mut Resident,
) -> Result<Stages, SweepError> {
    let multiprocessors = trials.problem().limits.multiprocessors;
    let groups = &MergedStep::of(trials.task(), fused, PersistentGrid { workgroups: 1, threads }).groups;
    // A software adapter may have but one of its threads free.
    let counts = match trials.problem().limits.is_cpu {
        true => vec![1],
        false => {
            let halves = HALVES_OF_MULTIPROCESSORS.into_iter().skip(usize::from(trials.is_short()));
            halves.map(|halves| (halves * multiprocessors / 2).max(1)).collect()
        }
    };
    let mut refusal = "no workgroup passes a barrier".to_owned();
    // All numbers of workgroups share it.
    let mut left = share.mul_f64(0.8);
    let most = resident.most;
    for workgroups in counts.into_iter().filter(|n| *n <= most) {
        let grid = PersistentGrid { workgroups, threads };
        // Any stages will do to see whether so many workgroups run at once.
        let tries = if resident.is_known || trials.is_short() { &[true][..] } else { &[false, true] };
        for is_tuned in tries {
            let time = if *is_tuned { std::mem::take(&mut left) } else { Duration::ZERO };
            let mut ranked = rank(trials, tuner, groups, grid, time)?;
            if ranked.iter().any(Vec::is_empty) {
                "an op has no kernel that can be one".clone_into(&mut refusal);
                break;
            }
            let mut best = together(trials.task(), groups, &ranked)?;
            if best.is_none() && !is_tuned {
                // One of each may take too much memory.
                ranked = rank(trials, tuner, groups, grid, left.mul_f64(PROBE))?;
                best = together(trials.task(), groups, &ranked)?;
            }
            let Some(best) = best else {
                "its stages need more workgroup memory than there is".clone_into(&mut refusal);
                break;
            };
            let plan = Plan { persistent: Some(workgroups), ..with(fused, best) };
            match trials.jobs().resident(&plan) {
                Ok(()) if *is_tuned => {
                    let timed = groups.iter().cloned().zip(ranked).collect();
                    return Ok(Stages::Found(Box::new(plan), timed));
                }
                Ok(()) => *resident = Resident { most: workgroups, is_known: true },
                Err(TrialError::Failed(reason)) => {
                    refusal = reason.text;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Stages::None(refusal))
}

/// Stages for each group, the fastest first, found in that time; they end with the first group that has none.
fn rank(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    groups: &[InstanceGroup],
    grid: PersistentGrid,
    time: Duration,
) -> Result<Vec<Vec<RankedStage>>, SweepError> {
    let total: f64 = groups.iter().map(weight).sum();
    let mut ranked: Vec<Vec<RankedStage>> = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        // The first layer's instances lack an operand of the others': what is best there is a good guess here.
        let like = groups[..i].iter().position(|other| is_like(other, group));
        let like = like.and_then(|i| ranked[i].first()).map(|stage| stage.choice.clone());
        let deadline = trials.spent() + time.mul_f64(weight(group) / total);
        ranked.push(tuner.best_stages(group, trials.jobs(), grid, (like.as_ref(), deadline))?);
        if ranked.last().is_some_and(Vec::is_empty) {
            // The others are of no use.
            break;
        }
    }
    Ok(ranked)
}

/// Compares the stages with a plan, fused and, where that is not faster, as one dispatch per op.
fn compare_both(
    trials: &mut Trials<'_>,
    plan: &mut Plan,
    persistent: Plan,
    threads: u32,
    allowance: Duration,
) -> Result<Challenge, SweepError> {
    let effort = Effort::usual(allowance);
    let per_op = Plan { persistent: None, ..persistent.clone() };
    let workgroups = persistent.persistent.unwrap_or_default();
    let candidate = Candidate::Persistent { threads, workgroups };
    // In a short time there is but one, which is compared at once.
    if !trials.is_short() && trials.is_screened_out([plan, &persistent], Scenario::DECODE, &candidate)? {
        return Ok(Challenge::Lost);
    }
    let ended = trials.challenge(plan, persistent, &[Scenario::DECODE], effort, candidate)?;
    // A boundary between two dispatches costs more than one between stages: what has lost so has lost.
    if ended == Challenge::Won || plan.persistent.is_some() || per_op.hash() == plan.hash() {
        return Ok(ended);
    }
    trials.challenge(plan, per_op, &[Scenario::DECODE], effort, Candidate::PerOp { threads })?;
    Ok(ended)
}
