//! An experiment's README: the question, what was expected, what devices answered. Made of the declaration and the
//! results.

use super::recorded::{Answered, Recorded};
use crate::cells::cell;
use crate::findings::{heading, markdown, verdict};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};
use wgoose_measure::experiment::Claim;
use wgoose_plans::day;
use wgoose_session::printable;

/// The whole page.
pub(super) fn readme(recorded: &Recorded, answers: &[Answered]) -> String {
    let experiment = &recorded.experiment;
    let hypothesis: Vec<&str> = experiment.hypothesis.lines().map(str::trim).collect();
    let mut out = format!("# {}\n\n{}\n", cell(&experiment.question), hypothesis.join("\n").trim());
    if !experiment.claims.is_empty() {
        out += &format!("\n{}", predictions(&experiment.claims, answers));
    }
    if answers.len() > 1 {
        out += &format!("\n## Devices side by side\n{}", side_by_side(answers));
    }
    for Answered { device, findings } in answers {
        let date = day(UNIX_EPOCH + Duration::try_from_secs_f64(findings.session.at).unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\n## {}\n\n{}. {date}.", cell(&findings.session.device.adapter), heading(findings));
        if recorded.is_outdated(findings) {
            out += "The declaration has changed since.\n";
        }
        let _ = writeln!(out, "\n{}\n![The arms against the baseline](results/{device}.svg)", markdown(findings));
    }
    out + &format!(
        "\n## Again\nWritten from [experiment.ron](experiment.ron), which says what is varied and what is held fixed, and from the ledgers in \
         `results/`, which have every sample, by\n\n```sh\nwgoose dev experiment run experiments/{}\n```\n",
        printable(&recorded.name)
    )
}

/// What was expected, and what was found on each device.
fn predictions(claims: &[Claim], answers: &[Answered]) -> String {
    let devices: Vec<String> = answers.iter().map(|answered| format!(" {} |", cell(&answered.device))).collect();
    let rules = "---|".repeat(answers.len());
    let mut out =
        format!("| arm | timed | predicted | holds from, to |{}\n|---|---|---:|---|{rules}\n", devices.concat());
    for claim in claims {
        let (from, to) = claim.holds;
        let _ = write!(out, "| {} | {} | {:.3} | {from}, {to} |", cell(&claim.arm), claim.scenario(), claim.predicted);
        for Answered { findings, .. } in answers {
            let (found, answer) = claim.answer(findings);
            let _ = match found {
                Some(gain) => write!(out, " {gain:.3}: {answer} |"),
                None => write!(out, " {answer} |"),
            };
        }
        out += "\n";
    }
    out
}

/// A row for each arm in each scenario, a column for each device.
pub(super) fn side_by_side(answers: &[Answered]) -> String {
    let devices: Vec<String> = answers.iter().map(|answered| format!(" {} |", cell(&answered.device))).collect();
    let mut out = format!("| arm | timed |{}\n|---|---|{}\n", devices.concat(), "---|".repeat(answers.len()));
    let mut rows = Vec::new();
    for Answered { findings, .. } in answers {
        for found in &findings.found {
            for timed in &found.timed {
                let row = (timed.scenario, found.arm.name.clone());
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
    }
    rows.sort_by_key(|(scenario, _)| *scenario);
    for (scenario, arm) in rows {
        let _ = write!(out, "| {} | {scenario} |", cell(&arm));
        for Answered { findings, .. } in answers {
            let found = findings.found.iter().find(|found| found.arm.name == arm);
            let timed = found.and_then(|found| found.timed.iter().find(|timed| timed.scenario == scenario));
            let text = match (found.and_then(|found| found.refused.as_ref()), timed) {
                (Some(_), _) => "refused".to_owned(),
                (None, Some(timed)) => verdict(timed),
                (None, None) => "-".to_owned(),
            };
            let _ = write!(out, " {text} |");
        }
        out += "\n";
    }
    out
}
