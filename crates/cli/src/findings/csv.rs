//! Findings for spreadsheets.

use super::{gains, rates};
use crate::cells::quoted;
use wgoose_measure::experiment::{Findings, Found, Timed};

/// The names of the columns.
const COLUMNS: &str = "experiment,device,driver,version,arm,model,plan,precision,tokens,sequences,baseline_tokens_per_s,arm_tokens_per_s,\
                       times_as_fast,low,high,pairs,verdict,class,agreeing,decisions,quality_hash,refused";

/// Comma-separated values (RFC 4180) with a line of names: a line for each arm in each scenario, and one for each that
/// was refused.
pub(crate) fn csv(all: &[Findings]) -> String {
    let mut out = format!("{COLUMNS}\n");
    for findings in all {
        for found in &findings.found {
            if found.refused.is_some() {
                out += &line(findings, found, None);
            }
            found.timed.iter().for_each(|timed| out += &line(findings, found, Some(timed)));
        }
    }
    out
}

fn line(findings: &Findings, found: &Found, timed: Option<&Timed>) -> String {
    let (session, arm) = (&findings.session, &found.arm);
    let mut cells = vec![
        findings.experiment.clone(),
        session.device.adapter.clone(),
        session.device.driver.clone(),
        session.version.clone(),
        arm.name.clone(),
        arm.file.clone(),
        arm.plan.to_string(),
        arm.precision.to_string(),
    ];
    match timed {
        Some(timed) => {
            cells.extend([timed.scenario.tokens, timed.scenario.sequences].map(|n| n.to_string()));
            cells.extend(rates(timed).map(|rate| format!("{rate:.3}")));
            cells.extend(gains(timed).map(|gain| format!("{gain:.5}")));
            let comparison = &timed.result.comparison;
            cells.extend([comparison.pairs.to_string(), comparison.verdict.to_string()]);
        }
        None => cells.extend(std::iter::repeat_n(String::new(), 9)),
    }
    let gate = found.gate.as_ref();
    let agreeing = gate.and_then(|gate| gate.agreeing);
    cells.push(gate.and_then(|gate| gate.class).map(|class| class.to_string()).unwrap_or_default());
    cells.extend(match agreeing {
        Some((agreeing, decisions)) => [agreeing, decisions].map(|n| n.to_string()),
        None => [String::new(), String::new()],
    });
    cells.push(gate.and_then(|gate| gate.quality_hash.clone()).unwrap_or_default());
    cells.push(found.refused.as_ref().map(ToString::to_string).unwrap_or_default());
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
    cells.join(",") + "\n"
}
