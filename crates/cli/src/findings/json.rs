//! Findings for programs.

use super::{gains, rates};
use serde_json::{Value, json};
use wgoose_measure::experiment::{Findings, Found, Timed};

/// A run with all of its samples.
pub(crate) fn json(findings: &Findings) -> Value {
    let session = &findings.session;
    json!({
        "experiment": findings.experiment,
        "declaration": findings.declaration,
        "at": session.at,
        "version": session.version,
        "device": session.device,
        "left_out": findings.left_out,
        "arms": findings.found.iter().map(arm).collect::<Vec<_>>(),
    })
}

fn arm(found: &Found) -> Value {
    let failed: Vec<Value> = found
        .failed
        .iter()
        .map(|(scenario, reason)| json!({ "scenario": scenario, "reason": reason.to_string() }))
        .collect();
    json!({
        "arm": found.arm,
        "is_baseline": found.is_baseline,
        "gate": found.gate,
        "refused": found.refused.as_ref().map(ToString::to_string),
        "fell_back": found.fell_back.as_ref().map(ToString::to_string),
        "timed": found.timed.iter().map(timed).collect::<Vec<_>>(),
        "failed": failed,
    })
}

fn timed(timed: &Timed) -> Value {
    let ([baseline, own], [gain, low, high]) = (rates(timed), gains(timed));
    json!({
        "scenario": timed.scenario,
        "verdict": timed.result.comparison.verdict,
        "times_as_fast": gain,
        "interval": [low, high],
        "pairs": timed.result.comparison.pairs,
        "baseline_tokens_per_s": baseline,
        "arm_tokens_per_s": own,
        "samples_ns": timed.samples_ns,
    })
}
