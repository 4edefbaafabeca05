//! The gate: the default plan passes it, without which nothing is known to be right, and so does the incumbent; what
//! rounds too much is taken out of a plan that was found.

use super::incumbent;
use crate::sweep::trials::Trials;
use crate::sweep::{Event, Note, Stage, SweepError, SweepStep};
use std::time::Duration;
use wgoose_kernels::{Plan, Precision, StateFormat};
use wgoose_measure::ledger::Gate;
use wgoose_measure::result_cache::{ResultCache, TrialError};

/// That the default plan passes the gate, and whether the incumbent does. From then on winners must at once.
pub(in crate::sweep) fn check_default(trials: &mut Trials<'_>) -> Result<(), SweepError> {
    trials.begin(Stage::Reference, 1)?;
    let gate = default_gate(trials)?;
    if !gate.passed {
        return Err(SweepError::Gate(gate.detail));
    }
    let hash = gate.quality_hash.unwrap_or_default();
    trials.done(SweepStep::Reference { hash, detail: gate.detail })?;
    incumbent::gate(trials)?;
    trials.gate_winners();
    Ok(())
}

/// The gate of the default plan. It may wait for the reference.
pub(in crate::sweep) fn default_gate(trials: &mut Trials<'_>) -> Result<Gate, SweepError> {
    let before = trials.results().waited();
    let gate = match trials.default_gate() {
        Err(TrialError::Failed(reason)) => return Err(SweepError::Gate(reason.to_string())),
        gate => gate?,
    };
    let waited = trials.results().waited().saturating_sub(before);
    if waited >= Duration::from_secs(1) {
        trials.tell(Event::Waited(waited))?;
    }
    Ok(gate)
}

/// Whether a plan makes the reference's decisions wherever its class certifies them, and any are; `None` where it was
/// not looked at.
pub(in crate::sweep) fn answers_alike(results: &ResultCache<'_>, plan: &Plan) -> Option<bool> {
    let (agreeing, decisions) = results.known_gate(plan)?.agreeing?;
    Some(decisions > 0 && agreeing == decisions)
}

/// Takes out what rounds too much for this model, the least precise first, so that the other kernels are still
/// compared.
pub(in crate::sweep) fn drop_imprecise(trials: &mut Trials<'_>, plan: &mut Plan) -> Result<(), SweepError> {
    let catalogue = &trials.options().catalogue;
    while plan.least_precise(catalogue) > Precision::F32 {
        let detail = match trials.gate(plan) {
            Ok(gate) if gate.passed => break,
            Ok(gate) => gate.detail,
            Err(TrialError::Failed(reason)) => reason.to_string(),
            Err(TrialError::OutOfTime) => break,
            Err(error) => return Err(error.into()),
        };
        let least = plan.least_precise(catalogue);
        plan.choices.retain(|choice| choice.precision(catalogue) < least);
        plan.precision = Precision::F32;
        plan.state = StateFormat::F32;
        trials.note(Note::Dropped { precision: least, detail })?;
    }
    Ok(())
}
