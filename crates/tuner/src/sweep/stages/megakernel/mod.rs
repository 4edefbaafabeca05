//! Kernels that can be phases of a megakernel: as one dispatch per op, and as a megakernel.
//!
//! 1. Phases are found for each width of workgroups, and the step of the best of them is compared with the plan.
//! 2. Forms that differ in fusions and layouts, and are not far behind by the times of their kernels alone, are found.
//! 3. Whole steps of these are sampled, and the likeliest are compared.

pub(super) mod find_forms;
mod phases;
pub(super) mod sampling;

use crate::kernel_tuning::KernelTuner;
use crate::sweep::forms::Forms;
use crate::sweep::megakernel_step::MegakernelStep;
use crate::sweep::task::Task;
use crate::sweep::trials::{COMPARISON, Challenge, Trials};
use crate::sweep::{Candidate, Stage, SweepError, SweepStep};
use find_forms::find_forms;
use phases::{HOPELESS, Phases, Resident, is_hopeless, phases};
use sampling::sample;
use std::cmp::Reverse;
use std::time::Duration;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::Choice;
use wgoose_kernels::{HandOver, Plan};
use wgoose_measure::paired::Effort;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::PersistentGrid;

/// Widths of workgroups: those that kernels of a fixed grid have.
const THREADS: [u32; 3] = [640, 512, 256];

/// What values do that need no barrier.
const ANNOUNCED: &str = "values that announce themselves";

/// Fuses all that can be fused in decode, finds kernels that can be phases, and compares them with the plan, as one
/// dispatch per op, then as megakernels. Compiling steps of many layers takes seconds; a software adapter, where they
/// are asked for, tries the plan's fusions and the last width alone.
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
    let groups =
        MegakernelStep::of(trials.task(), &fused, PersistentGrid { workgroups: 1, threads: THREADS[0] }).groups;
    let hints: Vec<&Choice> = groups.iter().flat_map(|group| tuner.hints_for(&group.key)).collect();
    let has =
        |choice: &Choice, threads: u32| choice.config.get("WG").is_some_and(|width| *width == threads.to_string());
    widths.sort_by_key(|threads| Reverse(hints.iter().filter(|choice| has(choice, *threads)).count()));
    let mut resident = Resident { most: u32::MAX, is_known: false };
    let (mut untried, mut forms, mut grids, mut won) = (Vec::new(), Forms::new(), Vec::new(), false);
    for (i, threads) in widths.iter().copied().enumerate() {
        let among = if trials.is_short() { 1 } else { widths.len() - i };
        let share = trials.left(|ends| ends.phases) / among as u32;
        if share.is_zero() {
            untried.push(format!("megakernels of {threads} threads"));
            continue;
        }
        match phases(trials, tuner, &fused, (threads, share), &mut resident)? {
            Phases::Found(_, timed) if is_hopeless(&timed) => {
                let why = format!("alone they take {HOPELESS} times as long as at the speed of the fastest of them");
                trials.done(SweepStep::NoStages { threads, why })?;
            }
            Phases::Found(persistent, timed) => {
                let workgroups = persistent.persistent.unwrap_or_default();
                let grid = PersistentGrid { workgroups, threads };
                timed.into_iter().for_each(|(group, phases)| forms.add(&group, Some(grid), phases));
                let has_won = compare_both(trials, plan, *persistent, threads, share.mul_f64(0.1))? == Challenge::Won;
                // That of the best so far comes first.
                grids.insert(if has_won { 0 } else { grids.len() }, grid);
                won |= has_won;
            }
            Phases::None(why) => trials.done(SweepStep::NoStages { threads, why })?,
        }
    }
    trials.leave_untried(untried, plan)?;
    if !won {
        return Ok(());
    }
    if trials.is_short() {
        return trials.leave_untried(vec![ANNOUNCED.to_owned()], plan);
    }
    // What lies between phases decides which form is the fastest.
    announced(trials, plan)?;
    fused.hand_over = plan.hand_over;
    find_forms(trials, tuner, &mut forms, &fused, plan, &grids)?;
    sample(trials, tuner, plan, &mut forms)?;
    announced(trials, plan)
}

/// Compares the best megakernel with the same in which values announce themselves, instead of waiting behind barriers.
fn announced(trials: &mut Trials<'_>, plan: &mut Plan) -> Result<(), SweepError> {
    if plan.persistent.is_none() || plan.hand_over == HandOver::Announced {
        return Ok(());
    }
    let announced = Plan { hand_over: HandOver::Announced, ..plan.clone() };
    let name = Candidate::Change(ANNOUNCED.to_owned());
    trials.challenge(plan, announced, &[Scenario::DECODE], Effort::fine(COMPARISON), name)?;
    Ok(())
}

/// Compares the phases with a plan, fused and, where that is not faster, as one dispatch per op.
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
    // A boundary between two dispatches costs more than one between phases: what has lost so has lost.
    if ended == Challenge::Won || plan.persistent.is_some() || per_op.hash() == plan.hash() {
        return Ok(ended);
    }
    trials.challenge(plan, per_op, &[Scenario::DECODE], effort, Candidate::PerOp { threads })?;
    Ok(ended)
}
