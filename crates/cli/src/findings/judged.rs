//! Findings as verdicts for programs: an object a line, one for each arm and scenario.

use super::{gains, rates};
use crate::failure::{Failure, Judged};
use serde_json::{Value, json};
use wgoose_measure::experiment::{Findings, Found, Timed};
use wgoose_measure::judge::{Verdict, overall};
use wgoose_measure::ledger::Reason;

/// Prints the verdicts; an error carries the worst of them where something is wrong, else the best.
pub(crate) fn judged(all: &[Findings]) -> Result<(), Failure> {
    let mut verdicts = Vec::new();
    for findings in all {
        for found in findings.found.iter().skip(1) {
            for (verdict, line) in of_arm(findings, found) {
                verdicts.push(verdict);
                outln!("{line}");
            }
        }
    }
    match overall(&verdicts) {
        None | Some(Verdict::Faster) => Ok(()),
        Some(verdict) => Err(Judged { verdict, why: String::new() }.into()),
    }
}

fn of_arm(findings: &Findings, found: &Found) -> Vec<(Verdict, Value)> {
    let line = |verdict: Verdict, scenario: Option<String>, reason: String, rest: Value| {
        let mut line = json!({
            "experiment": findings.experiment,
            "arm": found.arm.name,
            "verdict": verdict,
            "scenario": scenario,
            "reason": reason,
        });
        if let (Value::Object(line), Value::Object(rest)) = (&mut line, rest) {
            line.extend(rest);
        }
        (verdict, line)
    };
    let failed = |scenario: Option<String>, Reason { cause, text }: &Reason| {
        line(Verdict::from(*cause), scenario, text.clone(), Value::Null)
    };
    let refused = found.refused.iter().chain(&found.fell_back).map(|reason| failed(None, reason));
    let broken = found.failed.iter().map(|(scenario, reason)| failed(Some(scenario.to_string()), reason));
    let timed = found.timed.iter().map(|timed: &Timed| {
        let ([baseline, own], [gain, low, high]) = (rates(timed), gains(timed));
        let comparison = &timed.result.comparison;
        let rest = json!({
            "times_as_fast": gain,
            "interval": [low, high],
            "pairs": comparison.pairs,
            "baseline_tokens_per_s": baseline,
            "arm_tokens_per_s": own,
        });
        let reason = match timed.is_contradicted {
            true => "samples that were held out contradict those before them",
            false => "interleaved pairs at 95 % confidence",
        };
        line(comparison.verdict.into(), Some(timed.scenario.to_string()), reason.to_owned(), rest)
    });
    refused.chain(broken).chain(timed).collect()
}
