//! Failures and their causes.

use super::view::View;
use wgoose_measure::job::Job;
use wgoose_measure::ledger::{Cause, Outcome, Trial};

/// Something that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Seconds that were spent by then.
    pub at: f64,
    /// The class of the failure; `None` where the ledger ends in the middle of it.
    pub cause: Option<Cause>,
    /// What was tried.
    pub what: String,
    /// What was said.
    pub text: String,
    /// Whether it is kept as a bundle beside its ledger, and not tried again.
    pub is_kept: bool,
}

/// What failed, in order. What a constraint refuses is no failure.
pub(super) fn failures(view: &View<'_>) -> Vec<Failed> {
    let failed = |trial: &&Trial| {
        let (cause, text) = match &trial.outcome {
            Outcome::Failed(reason) if reason.cause != Cause::Constraint => (Some(reason.cause), reason.text.clone()),
            Outcome::Gate(gate) if !gate.passed => (Some(Cause::WrongResult), gate.detail.clone()),
            _ => return None,
        };
        // As `runner/child/bundle.rs` has it.
        let is_kept = !matches!(trial.outcome, Outcome::Gate(_)) && cause != Some(Cause::NotResident);
        Some(Failed { at: view.spent_at(trial), cause, what: what(trial), text, is_kept })
    };
    let mut all: Vec<Failed> = view.trials.iter().filter_map(failed).collect();
    let broken_off = |trial: &&Trial| view.is_device(&trial.identity.device);
    for trial in view.records.interrupted().filter(broken_off) {
        let text = "its sweep ended before it did".to_owned();
        all.push(Failed { at: view.spent_at(trial), cause: None, what: what(trial), text, is_kept: false });
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at).then_with(|| a.what.cmp(&b.what)));
    all
}

/// What a trial tried, in a line.
fn what(trial: &Trial) -> String {
    match &trial.identity.tried {
        Job::Kernel { site, kernel } | Job::Control { site, kernel } => format!("{site}: {kernel}"),
        Job::Kernels { site, kernels: [a, b], .. } => format!("{site}: {a} against {b}"),
        Job::Compile { site } => format!("kernels of {site}, compiled ahead"),
        Job::Gate { plan, only_decode: false } => format!("the gate of plan {plan}"),
        Job::Gate { plan, only_decode: true } => format!("the gate of plan {plan} in decode"),
        Job::ExtendedGate { plan, .. } => format!("long prompts and full batches of plan {plan}"),
        Job::Resident { plan } => format!("the megakernel of plan {plan}"),
        Job::Prepare { plans } => format!("{} plans, compiled ahead", plans.len()),
        Job::Screen { plans: [a, b], scenario }
        | Job::Steps { plans: [a, b], scenario, .. }
        | Job::Confirm { plans: [a, b], scenario, .. } => format!("plan {b} against {a} in {scenario}"),
    }
}
