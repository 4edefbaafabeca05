//! The findings of a search for programs: an object a line.

use crate::failure::{Failure, Judged};
use serde_json::json;
use std::path::Path;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::ScenarioEvidence;
use wgoose_measure::judge::{Verdict, overall};
use wgoose_measure::ledger::{self, Cause, Outcome};

/// The candidates that are refused for good, then the plan in each scenario beside the device's default; an error
/// unless it is faster.
pub(super) fn judged(plan: &Plan, place: &str, ledger: &Path) -> Result<(), Failure> {
    let (records, _) = ledger::read(ledger)?;
    for (_, trial) in records.trials() {
        let reason = match &trial.outcome {
            Outcome::Failed(reason) if reason.cause != Cause::Constraint => (reason.cause, reason.text.clone()),
            Outcome::Gate(gate) if !gate.passed => (Cause::WrongResult, gate.detail.clone()),
            _ => continue,
        };
        let (verdict, tried) = (Verdict::from(reason.0), &trial.identity.tried);
        outln!("{}", json!({ "about": "candidate", "verdict": verdict, "tried": tried, "reason": reason.1 }));
    }
    let scenarios = plan.evidence.as_ref().map(|evidence| &evidence.scenarios[..]).unwrap_or_default();
    let mut verdicts = Vec::new();
    for ScenarioEvidence { scenario, tokens, default_us, tuned_us, speedup: (low, high), .. } in scenarios {
        let verdict = match () {
            () if *low > 1.0 => Verdict::Faster,
            () if *high < 1.0 => Verdict::Slower,
            () => Verdict::Unsure,
        };
        verdicts.push(verdict);
        let line = json!({
            "about": "plan", "verdict": verdict, "plan": place, "scenario": scenario, "tokens": tokens,
            "times_as_fast": default_us / tuned_us, "interval": [low, high], "default_us": default_us,
            "tuned_us": tuned_us, "reason": "confirmed beside the device's default, 95 % confidence",
        });
        outln!("{line}");
    }
    if verdicts.is_empty() {
        verdicts.push(Verdict::Same);
        let reason = "nothing faster than the device's default was found";
        outln!("{}", json!({ "about": "plan", "verdict": Verdict::Same, "plan": place, "reason": reason }));
    }
    match overall(&verdicts) {
        None | Some(Verdict::Faster) => Ok(()),
        Some(verdict) => Err(Judged { verdict, why: String::new() }.into()),
    }
}
