//! The phases of a megakernel: for each kind of op instance the kernels that can be one, and how many workgroups run at
//! once with the best of them.

use crate::kernel_tuning::{KernelTuner, RankedPhase};
use crate::sweep::SweepError;
use crate::sweep::megakernel_step::{MegakernelStep, is_like, together, weight, with};
use crate::sweep::trials::Trials;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::space::{InstanceGroup, PersistentGrid};

/// Numbers of workgroups that are tried, the most first, in halves of the device's multiprocessors. Phases leave the
/// registers of a multiprocessor to one or two workgroups; whether so many run at once takes a compiled step to find
/// out.
const HALVES_OF_MULTIPROCESSORS: [u32; 3] = [4, 2, 1];

/// The share of the time for phases that goes into finding some that fit, to see how many workgroups run at once.
const PROBE: f64 = 0.15;

/// A phase that reads so many times as slowly as the fastest, and takes half of a step, is not worth a compilation:
/// there is only a naive kernel for it.
pub(super) const HOPELESS: f64 = 10.0;

/// Whether one of some phases is that slow, each with the fastest kernel that was timed for it.
pub(super) fn is_hopeless(timed: &[(InstanceGroup, Vec<RankedPhase>)]) -> bool {
    let ns = |phases: &[RankedPhase]| phases.iter().map(|phase| phase.ns).fold(f64::INFINITY, f64::min);
    let speed = |group: &InstanceGroup, phases: &[RankedPhase]| group.instance.bytes() as f64 / ns(phases);
    let fastest = timed.iter().map(|(group, phases)| speed(group, phases)).fold(0.0, f64::max);
    let all_ns: f64 = timed.iter().map(|(group, phases)| ns(phases) * f64::from(group.count)).sum();
    timed.iter().any(|(group, phases)| {
        HOPELESS * speed(group, phases) < fastest && 2.0 * ns(phases) * f64::from(group.count) > all_ns
    })
}

/// What is known of how many workgroups run at once.
pub(super) struct Resident {
    /// No more than so many.
    pub(super) most: u32,
    /// Whether so many did.
    pub(super) is_known: bool,
}

/// The phases of a width.
pub(super) enum Phases {
    /// A plan for megakernels of the best of them, and all that were timed for each kind of op instance.
    Found(Box<Plan>, Vec<(InstanceGroup, Vec<RankedPhase>)>),
    /// There are none: the reason.
    None(String),
}

/// The best phases, of as many workgroups as run at once.
pub(super) fn phases(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    fused: &Plan,
    (threads, share): (u32, Duration),
    resident: &mut Resident,
) -> Result<Phases, SweepError> {
    let multiprocessors = trials.problem().limits.multiprocessors;
    let groups = &MegakernelStep::of(trials.task(), fused, PersistentGrid { workgroups: 1, threads }).groups;
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
        // Any phases will do to see whether so many workgroups run at once.
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
                    return Ok(Phases::Found(Box::new(plan), timed));
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
    Ok(Phases::None(refusal))
}

/// Phases for each group, the fastest first, found in that time; they end with the first group that has none.
fn rank(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    groups: &[InstanceGroup],
    grid: PersistentGrid,
    time: Duration,
) -> Result<Vec<Vec<RankedPhase>>, SweepError> {
    let total: f64 = groups.iter().map(weight).sum();
    let mut ranked: Vec<Vec<RankedPhase>> = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        // The first layer's instances lack an operand of the others': what is best there is a good guess here.
        let like = groups[..i].iter().position(|other| is_like(other, group));
        let like = like.and_then(|i| ranked[i].first()).map(|phase| phase.choice.clone());
        let deadline = trials.spent() + time.mul_f64(weight(group) / total);
        ranked.push(tuner.best_phases(group, trials.jobs(), grid, (like.as_ref(), deadline))?);
        if ranked.last().is_some_and(Vec::is_empty) {
            // The others are of no use.
            break;
        }
    }
    Ok(ranked)
}
