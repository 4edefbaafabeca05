//! The kernels of a move: which op instances are worth tuning, each for a while, alone.

use super::sites::{sites, work};
use crate::kernel_tuning::{KernelTuner, TunedKernel};
use crate::sweep::trials::Trials;
use crate::sweep::{Stage, SweepError, SweepStep};
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::{Plan, bucket};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// Of the kinds of op instance of a pass the default kernels of those are timed that do so much of its work together,
/// those first that do the most.
const WORK: f64 = 0.97;

/// Of these are tuned those that take so much of their time together, the costliest first.
const COSTLY: f64 = 0.9;

/// Kernels of a kind of op instance without which timing its default one was in vain.
const FEWEST_TRIED: f64 = 3.0;

/// Tunes kernels of op instances for a while and puts those that won into a plan: the logarithm of how many times as
/// fast the scenario is with them, by their times alone.
pub(super) fn tune(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    sites: Vec<InstanceGroup>,
    scenario: Scenario,
    time: Duration,
) -> Result<f64, SweepError> {
    let begun = trials.spent();
    let (mut costs, whole_ns) = costs(trials, tuner, sites, time)?;
    // What is known to be fast elsewhere comes first.
    costs.sort_by_key(|(_, site)| tuner.hints_for(&site.key).is_empty());
    let all: f64 = costs.iter().map(|(ns, _)| ns).sum();
    let left = (begun + time).saturating_sub(trials.spent());
    let begun = trials.spent();
    trials.begin(Stage::Kernels, costs.len())?;
    let (mut claimed, mut saved) = (0.0, 0.0);
    for (ns, site) in costs {
        claimed += ns / all;
        // A kernel that has won is likely to be fast for other instances of its op.
        let hints: Vec<Plan> = trials.options().hints.iter().chain([&*plan]).cloned().collect();
        let won = plan.choices.iter().find(|choice| choice.key == site.key).cloned();
        let deadline = begun + left.mul_f64(claimed.min(1.0));
        let found = tuner.with_hints(&hints).tune_on(&site, trials.jobs(), won.as_ref(), deadline)?;
        let TunedKernel { winner, default_ns, best_ns, tried, .. } = found;
        let (key, gain) = (site.key.clone(), default_ns / best_ns);
        trials.done(SweepStep::Kernel { key, winner: winner.clone(), gain, tried })?;
        if let Some(choice) = winner.filter(|choice| Some(choice) != won.as_ref()) {
            saved += ns * (1.0 - (best_ns / default_ns).min(1.0));
            plan.adopt(choice);
            leave_shorter_alone(trials, tuner, plan, &site, scenario)?;
        }
    }
    Ok(-(1.0 - saved / whole_ns.max(1.0)).ln())
}

/// Puts the kernels of a known plan into one, where they are faster alone than the default's.
pub(super) fn adopt_known(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    known: &Plan,
    scenario: Scenario,
) -> Result<(), SweepError> {
    for site in sites(trials.task(), plan, scenario) {
        let tuner = tuner.with_hints(std::slice::from_ref(known));
        if let Some(choice) = tuner.faster_hint(&site, trials.jobs())? {
            plan.adopt(choice);
        }
    }
    Ok(())
}

/// The kinds of op instance that are worth tuning and that there is time for, with the nanoseconds that all of a kind
/// take by default, the costliest first; and what all op instances take, by the work of those that were timed.
fn costs(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    sites: Vec<InstanceGroup>,
    time: Duration,
) -> Result<(Vec<(f64, InstanceGroup)>, f64), SweepError> {
    trials.begin(Stage::Costs, sites.len())?;
    let (whole, mut done) = (sites.iter().map(work).sum::<u64>() as f64, 0.0);
    let mut costs: Vec<(f64, InstanceGroup)> = Vec::new();
    for site in sites {
        let needed = FEWEST_TRIED * trials.results().kernel_seconds() * (costs.len() + 1) as f64;
        if done > WORK * whole || (!costs.is_empty() && needed > time.as_secs_f64()) {
            break;
        }
        done += work(&site) as f64;
        let ns = tuner.default_ns(&site, trials.jobs())?;
        trials.done(SweepStep::cost(&site, ns))?;
        costs.push((ns * f64::from(site.count), site));
    }
    costs.retain(|(ns, _)| ns.is_finite());
    costs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let all: f64 = costs.iter().map(|(ns, _)| ns).sum();
    let mut before = 0.0;
    costs.retain(|(ns, _)| {
        before += ns;
        before - ns < COSTLY * all
    });
    Ok((costs, all * whole / done.max(1.0)))
}

/// Gives shorter prompts the kernels that they have, which a choice for more rows would serve as well.
fn leave_shorter_alone(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    site: &InstanceGroup,
    scenario: Scenario,
) -> Result<(), SweepError> {
    let prompts = trials.options().objective.prompts();
    let rows: BTreeSet<u32> = prompts
        .iter()
        .filter(|prompt| **prompt != scenario)
        .flat_map(|prompt| [prompt.tokens.min(plan.prefill_chunk), prompt.tokens % plan.prefill_chunk])
        .filter(|rows| *rows > 1 && bucket(*rows) < site.key.up_to_rows)
        .collect();
    for shorter in rows.into_iter().filter_map(|rows| site.with_rows(rows)) {
        if plan.choices.iter().all(|choice| choice.key != shorter.key) {
            plan.adopt(tuner.default_choice(&shorter, trials.jobs())?);
        }
    }
    Ok(())
}
