//! The incumbent: the plan that the device runs the model with today. It stays unless another is faster in at least one
//! scenario and slower in none: tuning makes nothing worse, and two tunings of one machine come to the same bits where
//! nothing faster was found meanwhile.

use crate::sweep::ends::share_of;
use crate::sweep::task::Task;
use crate::sweep::trials::{COMPARISON, Challenge, Trials};
use crate::sweep::{Candidate, Stage, SweepError};
use std::collections::BTreeSet;
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Plan, bucket};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::paired::Effort;

/// The share of the budget in which the incumbent is compared with the default.
const CHECK: f64 = 0.2;

/// The incumbent of a search that decides on whole plans; `None` where it is the default.
pub(in crate::sweep) fn of(Task { problem, options }: Task<'_>) -> Option<Plan> {
    let plan = options.in_use.clone().filter(|_| (Task { problem, options }).decides_all())?;
    let plan = Plan { evidence: None, ..plan.at_most(options.allowed, &options.catalogue) };
    let is_for_here = plan.device == problem.default.device && plan.model == problem.shape;
    (is_for_here && plan.hash() != problem.default.hash()).then_some(plan)
}

/// Compares the incumbent with the default, unless the ledger has that. If it is slower in something or faster in
/// nothing, it is the incumbent no more; if there is no time for that, it stays.
pub(in crate::sweep) fn compare(trials: &mut Trials<'_>) -> Result<(), SweepError> {
    let Some(plan) = trials.incumbent().cloned() else { return Ok(()) };
    let options = trials.options();
    let policy = Policy { allowed: options.allowed, without: BTreeSet::new() };
    let derived = derive(trials.results().records(), &options.catalogue, &options.objective, &policy);
    if derived.is_ok_and(|derived| derived.plan.evidence.is_some() && derived.plan.hash() == plan.hash()) {
        return Ok(());
    }
    trials.begin(Stage::InUse, 1)?;
    let scenarios = options.objective.scenarios();
    let allowance = share_of(trials.task().budget(), CHECK) / (2 * scenarios.len().max(1)) as u32;
    let effort = Effort::usual(allowance.min(COMPARISON));
    let mut best = trials.problem().default.clone();
    let ended = trials.challenge(&mut best, plan, &scenarios, effort, Candidate::InUse)?;
    trials.judge_incumbent((ended == Challenge::Won).then_some(best));
    Ok(())
}

/// Takes the incumbent through the gate.
pub(super) fn gate(trials: &mut Trials<'_>) -> Result<(), SweepError> {
    let Some(plan) = trials.incumbent().cloned() else { return Ok(()) };
    if !trials.passes(&plan, &Candidate::InUse)? || !trials.passes_extended(&plan, &Candidate::InUse)? {
        trials.judge_incumbent(None);
    }
    Ok(())
}

/// The better one of a plan that was found and the incumbent, if there is one. What decodes faster but reads prompts
/// more slowly may have the prompts of the incumbent.
pub(super) fn against(
    trials: &mut Trials<'_>,
    found: &Plan,
    effort: Effort,
) -> Result<Option<(Plan, Candidate)>, SweepError> {
    let incumbent = trials.incumbent().filter(|incumbent| incumbent.hash() != found.hash()).cloned();
    let Some(incumbent) = incumbent else { return Ok(None) };
    if found.hash() == trials.problem().default.hash() {
        return Ok(Some((incumbent, Candidate::InUse)));
    }
    let scenarios = trials.options().objective.scenarios();
    let one_row = bucket(1);
    let of_decode = found.choices.iter().filter(|choice| choice.key.up_to_rows == one_row);
    let of_prompts = incumbent.choices.iter().filter(|choice| choice.key.up_to_rows != one_row);
    let beside = Plan {
        prefill_chunk: incumbent.prefill_chunk,
        fusions: Fusions { decode: found.fusions.decode.clone(), ..incumbent.fusions.clone() },
        choices: of_decode.chain(of_prompts).cloned().collect(),
        ..found.clone()
    };
    let mut best = incumbent;
    for (plan, name) in [(found.clone(), Candidate::Winners), (beside, Candidate::DecodeBesideInUse)] {
        if trials.is_screened_out([&best, &plan], scenarios[0], &name)? {
            break;
        }
        match trials.challenge(&mut best, plan, &scenarios, effort, name.clone())? {
            Challenge::Won => return Ok(Some((best, name))),
            Challenge::Lost => {}
            // It is as fast.
            Challenge::Open => break,
        }
    }
    Ok(Some((best, Candidate::InUse)))
}
