//! The end of a sweep: what won, together, against the default plan.

use super::gates::default_gate;
use super::incumbent;
use super::qualify::qualifies;
use crate::sweep::strategy::Found;
use crate::sweep::trials::{Challenge, PROMISING, Trials};
use crate::sweep::{Candidate, Event, Stage, SweepError, SweepStep};
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::plan::{Choice, Evidence, Fusions};
use wgoose_kernels::{HandOver, Plan, bucket};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::paired::Effort;
use wgoose_measure::scenario::Scenario;

/// The assembled plan against the default; kernels that do not pay in the step are dropped, and then decoding has the
/// structure that won with default kernels. What then fails the gate, or is slower than the default in anything, is no
/// plan.
pub(in crate::sweep) fn confirm(trials: &mut Trials<'_>, found: Found) -> Result<Plan, SweepError> {
    let Found { structure, mut plan, alone: tuned, without_op } = found;
    let (default, objective) = (&trials.problem().default, &trials.options().objective);
    let scenarios = objective.scenarios();
    trials.begin(Stage::Confirm, tuned.len() + scenarios.len())?;
    let left = trials.task().budget().saturating_sub(trials.spent());
    let takes = if plan.hash() == default.hash() { Duration::ZERO } else { trials.ending().whole() };
    trials.tell(Event::Ending(takes.min(left)))?;
    if plan.hash() != default.hash() {
        trials.jobs().go_on();
    }
    let (is_apart, starts) = (trials.results().start().is_some(), objective.starts());
    if is_apart && trials.starts().is_empty() {
        trials.leave_untried(starts.iter().map(ToString::to_string).collect(), &plan)?;
    }
    let left = trials.task().budget().saturating_sub(trials.spent());
    let allowance = left / (2 * tuned.len() + scenarios.len()) as u32;
    // What is reported is measured at the end, in processes of its own.
    let (effort, sure) = (Effort::usual(allowance), Effort::sure(allowance));
    for scenario in tuned {
        let rows = match scenario.tokens {
            1 => bucket(scenario.sequences),
            _ => bucket(trials.task().longest_pass(&plan).unwrap_or(plan.prefill_chunk)),
        };
        let mut bare = Plan {
            choices: plan.choices.iter().filter(|c| c.key.up_to_rows != rows).cloned().collect(),
            ..plan.clone()
        };
        if scenario == Scenario::DECODE {
            bare.fusions.decode.clone_from(&structure.fusions.decode);
            (bare.persistent, bare.hand_over) = (None, HandOver::Barrier);
        }
        if bare.choices.len() == plan.choices.len() {
            trials.done(SweepStep::Untuned(scenario))?;
            continue;
        }
        let won = plan.choices.iter().filter(|c| c.key.up_to_rows == rows).cloned().collect::<Vec<Choice>>();
        let mut best = bare.clone();
        let ended = trials.challenge(&mut best, plan, &[scenario], effort, Candidate::Kernels(scenario))?;
        if ended != Challenge::Won && scenario != Scenario::DECODE {
            some_of(trials, &mut best, &bare, &won, scenario, effort)?;
        }
        plan = best;
    }
    // What reads prompts may be what fails; then decoding has all that won for it.
    let one_row = bucket(1);
    let decode = Plan {
        prefill_chunk: default.prefill_chunk,
        fusions: Fusions { prefill: default.fusions.prefill.clone(), ..plan.fusions.clone() },
        choices: plan.choices.iter().filter(|c| c.key.up_to_rows == one_row).cloned().collect(),
        ..plan.clone()
    };
    let best = incumbent::against(trials, &plan, sure)?;
    let mut candidates = vec![(plan, Candidate::Winners)];
    candidates.extend([(decode, Candidate::Decode), (structure.clone(), Candidate::Structure)]);
    if let Some(best) = best {
        candidates.retain(|(plan, _)| plan.hash() != best.0.hash());
        candidates.insert(0, best);
    }
    candidates.dedup_by_key(|(plan, _)| plan.hash());
    if trials.is_short() {
        // Without evidence of all that people run it is no plan.
        trials.jobs().go_on();
    }
    for (plan, candidate) in candidates {
        if plan.hash() != default.hash() && qualifies(trials, &plan, &candidate, sure)? {
            return derived(trials, without_op);
        }
    }
    let derived = derived(trials, without_op)?;
    if derived.hash() == default.hash() {
        // A comparison of the default with itself would say nothing.
        trials.done(SweepStep::NothingFaster)?;
    }
    Ok(derived)
}

/// Some of the kernels that were the fastest alone but are not together: those with which a whole pass is faster.
fn some_of(
    trials: &mut Trials<'_>,
    best: &mut Plan,
    bare: &Plan,
    won: &[Choice],
    scenario: Scenario,
    effort: Effort,
) -> Result<(), SweepError> {
    let mut candidate = bare.clone();
    let mut kept = Vec::new();
    for choice in won {
        let mut with_one = bare.clone();
        with_one.adopt(choice.clone());
        if trials.screened_gain([bare, &with_one], scenario)?.is_some_and(|gain| gain > PROMISING) {
            candidate.adopt(choice.clone());
            kept.push(choice.clone());
        }
    }
    trials.done(SweepStep::Moves { screened: won.len(), promising: kept.len() })?;
    if !kept.is_empty() && kept.len() < won.len() {
        trials.challenge(best, candidate, &[scenario], effort, Candidate::Move(kept))?;
    }
    Ok(())
}

/// The best plan that any sweep of this ledger has compared with the default, with its evidence.
fn derived(trials: &mut Trials<'_>, without_op: Vec<String>) -> Result<Plan, SweepError> {
    let options = trials.options();
    let policy = Policy { allowed: options.allowed, without: BTreeSet::new() };
    let derived = derive(trials.results().records(), &options.catalogue, &options.objective, &policy)?;
    let ledger = options.ledger.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(evidence) = derived.plan.evidence.clone() {
        let evidence = Evidence { ledger, without_op, ..evidence };
        trials.jobs().decide("derived", derived.decisions.join("; "), &derived.plan)?;
        return Ok(Plan { evidence: Some(evidence), ..derived.plan });
    }
    let gate = default_gate(trials)?;
    let evidence = Evidence {
        plan: String::new(),
        model: trials.problem().model.clone(),
        quality_hash: gate.quality_hash.unwrap_or_default(),
        class: gate.class,
        decisions: gate.agreeing.map_or(0, |(_, decisions)| decisions),
        checked: gate.checked.unwrap_or_default(),
        certified: gate.certified.unwrap_or_default(),
        rms_error: gate.rms,
        scenarios: Vec::new(),
        ledger,
        without_op,
    };
    Ok(trials.problem().default.clone().with_evidence(evidence))
}
