//! Kernels of megakernels: which are the fastest there is not what is the fastest alone, for a boundary between two
//! dispatches costs what none between phases does. Steps are drawn that may well be the fastest by what is believed, a
//! few samples of each change what is believed (Thompson sampling), and what is likeliest in the end is compared with
//! the best so far.

use crate::kernel_tuning::KernelTuner;
use crate::sweep::forms::{Forms, Picked};
use crate::sweep::megakernel_step::weight;
use crate::sweep::trials::{COMPARISON, Challenge, PROMISING, Trials};
use crate::sweep::{Candidate, SweepError, SweepStep};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::scenario::Scenario;

/// Phases that are drawn where nothing else is left to try, shared among their kinds by the bytes that they read.
const DRAWN: f64 = 100.0;

/// The share of the time for megakernels that is left for comparisons at the end.
const LAST: f64 = 0.12;

/// Time between two batches in which kernels near the likeliest are timed alone.
const NEAR: Duration = Duration::from_secs(2);

/// Changes kernels and form of the megakernel for as long as there is time.
pub(super) fn sample(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    forms: &mut Forms,
) -> Result<(), SweepError> {
    let memory = trials.problem().limits.workgroup_memory;
    let deadline = trials.spent() + trials.left(|ends| ends.sampling).mul_f64(1.0 - LAST);
    let fastest_alone = || forms.best(&forms.model.likeliest(), memory, &|_| true);
    let Some(reference) = forms.like(plan).or_else(fastest_alone) else { return Ok(()) };
    let mut rng = SplitMix64::seed_from_u64(0);
    // With how many times as fast as the first one each was, as a logarithm.
    let (mut seen, mut varied, mut promising) = (vec![(reference.clone(), 0.0)], Vec::new(), 0);
    while trials.spent() < deadline {
        let is_seen = |picked: &Picked| seen.iter().any(|(other, _)| other == picked);
        let batch = forms.batch(reference.form, memory, &is_seen, &mut rng);
        if batch.is_empty() {
            if deepen(trials, tuner, forms, &mut rng, deadline)? {
                continue;
            }
            break;
        }
        let gains = see(trials, forms, &reference, &batch)?;
        promising += gains.iter().filter(|gain| **gain > PROMISING).count();
        seen.extend(batch.into_iter().zip(gains));
        forms.model.learn();
        if let Some(likeliest) = forms.best(&forms.model.likeliest(), memory, &|_| true) {
            vary(trials, tuner, forms, &likeliest, (&mut varied, deadline))?;
        }
    }
    trials.done(SweepStep::Moves { screened: seen.len() - 1, promising })?;
    compare_likeliest(trials, tuner, plan, forms, (&reference, &seen))
}

/// Compares with a plan what is likeliest to be the fastest: of all steps, of those that need no other layout, which
/// prompts may not like, and of those of which samples were taken; and what was the fastest in these, whatever is
/// believed of it. The first that is faster takes its place.
pub(in crate::sweep) fn compare_likeliest(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    plan: &mut Plan,
    forms: &Forms,
    (reference, seen): (&Picked, &[(Picked, f64)]),
) -> Result<(), SweepError> {
    let (effects, memory) = (forms.model.likeliest(), trials.problem().limits.workgroup_memory);
    let parts = forms.parts(reference);
    let gain = |picked: &Picked| forms.model.gain([&parts, &forms.parts(picked)], &effects);
    let layouts = (plan.interleave.clone(), plan.k_major.clone());
    let has_layouts = |plan: &Plan| plan.interleave == layouts.0 && plan.k_major == layouts.1;
    let of_all = forms.best(&effects, memory, &|_| true);
    let of_layouts = forms.best(&effects, memory, &|form| has_layouts(&form.plan));
    let of_seen = seen.iter().map(|(picked, _)| picked).max_by(|a, b| gain(a).total_cmp(&gain(b)));
    let fastest = seen.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(picked, _)| picked);
    let mut likeliest: Vec<Picked> = Vec::new();
    let mut settled = Vec::new();
    for picked in [of_all, of_layouts].into_iter().flatten() {
        let mut default_bits = Vec::new();
        for (pool, _) in forms.chosen(&picked) {
            default_bits.push(tuner.default_bits(&forms.pools[pool].group, trials.jobs())?);
        }
        settled.push(forms.settled(picked, &effects, &default_bits));
    }
    for picked in settled.into_iter().chain(of_seen.cloned()).chain(fastest.cloned()) {
        if !likeliest.contains(&picked) {
            likeliest.push(picked);
        }
    }
    for picked in likeliest {
        let candidate = forms.plan(&picked, &trials.options().catalogue)?;
        if candidate.hash() == plan.hash() {
            continue;
        }
        let is_alike = has_layouts(&candidate);
        // A layout must pay for what it may cost prompts.
        let (scenarios, effort) = match is_alike {
            true => (vec![Scenario::DECODE], Effort::fine(COMPARISON)),
            false => (trials.options().objective.scenarios(), Effort::sure(COMPARISON)),
        };
        let name = match is_alike && candidate.fusions == plan.fusions {
            true => Candidate::Move(candidate.choices.iter().filter(|c| !plan.choices.contains(c)).cloned().collect()),
            false => Candidate::Change(forms.all[picked.form].name.clone()),
        };
        if trials.challenge(plan, candidate, &scenarios, effort, name)? == Challenge::Won {
            break;
        }
    }
    Ok(())
}

/// Takes a few samples of steps beside those of another one. How many times as fast each is, as a logarithm; those for
/// which there is no time are not among them, and one that does not run is infinitely slow.
fn see(
    trials: &mut Trials<'_>,
    forms: &mut Forms,
    reference: &Picked,
    batch: &[Picked],
) -> Result<Vec<f64>, SweepError> {
    let catalogue = &trials.options().catalogue;
    let other = forms.plan(reference, catalogue)?;
    let plans: Vec<Plan> = batch.iter().map(|picked| forms.plan(picked, catalogue)).collect::<Result<_, _>>()?;
    trials.jobs().prepare(&plans)?;
    let (mut gains, mut ran, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (picked, plan) in batch.iter().zip(&plans) {
        let screened = match trials.jobs().screen([&other, plan], Scenario::DECODE) {
            Ok(screened) => screened,
            Err(TrialError::Failed(_)) => {
                failed.push(picked.clone());
                gains.push(f64::NEG_INFINITY);
                continue;
            }
            Err(TrialError::OutOfTime) => break,
            Err(error) => return Err(error.into()),
        };
        ran.extend([reference.clone(), picked.clone()]);
        gains.push(screened.log_ratio);
        let steps = [forms.parts(reference), forms.parts(picked)];
        forms.model.see(steps, screened.log_ratio, screened.incumbent_ns);
    }
    forms.judge(&ran, &failed);
    Ok(gains)
}

/// Times phases that are drawn alone, where nothing that is known is worth a look any more. Whether there were new
/// ones.
fn deepen(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    forms: &mut Forms,
    rng: &mut SplitMix64,
    deadline: Duration,
) -> Result<bool, SweepError> {
    let begun = trials.spent();
    let phases = forms.pools.iter().filter(|pool| pool.grid.is_some());
    let mut groups: Vec<_> = phases.map(|pool| (pool.group.clone(), pool.grid)).collect();
    groups.sort_by(|(a, _), (b, _)| weight(b).total_cmp(&weight(a)));
    let total: f64 = groups.iter().map(|(group, _)| weight(group)).sum();
    for (group, grid) in groups {
        if trials.spent() >= deadline {
            break;
        }
        let count = (DRAWN * weight(&group) / total).ceil() as usize;
        let drawn = tuner.drawn(&group, trials.jobs(), grid, (count, rng))?;
        forms.add(&group, grid, drawn);
    }
    Ok(trials.spent() > begun)
}

/// Times what is one tunable away from each phase of a step, unless that was done.
fn vary(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    forms: &mut Forms,
    likeliest: &Picked,
    (varied, deadline): (&mut Vec<(usize, Choice)>, Duration),
) -> Result<(), SweepError> {
    let until = deadline.min(trials.spent() + NEAR);
    for own in forms.chosen(likeliest) {
        let (group, grid) = (forms.pools[own.0].group.clone(), forms.pools[own.0].grid);
        if let Some(grid) = grid.filter(|_| trials.spent() < until && !varied.contains(&own)) {
            let near = tuner.phases_near(&group, trials.jobs(), grid, (&own.1, until))?;
            forms.add(&group, Some(grid), near);
            varied.push(own);
        }
    }
    Ok(())
}
