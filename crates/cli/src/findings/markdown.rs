//! Findings for documents.

use super::{gains, place, rates, remarks};
use crate::cells::cell;
use std::fmt::Write as _;
use wgoose_measure::experiment::{Findings, Timed};

/// Where it was measured, and with what.
pub(crate) fn heading(findings: &Findings) -> String {
    cell(&place(findings))
}

/// A table in Markdown, and what is to be known besides.
pub(crate) fn markdown(findings: &Findings) -> String {
    let mut out = String::from(
        "| arm | timed | baseline, tokens/s | arm, tokens/s | times as fast | pairs | verdict |\n|---|---|---:|---:|---:|---:|---|\n",
    );
    for scenario in findings.scenarios() {
        for found in &findings.found {
            for timed in found.timed.iter().filter(|timed| timed.scenario == scenario) {
                let ([before, now], [gain, low, high]) = (rates(timed), gains(timed));
                let (pairs, name) = (timed.result.comparison.pairs, cell(&found.arm.name));
                // Writing to a string cannot fail.
                let _ = writeln!(
                    out,
                    "| {name} | {scenario} | {before:.1} | {now:.1} | {gain:.3} ({low:.3} to {high:.3}) | {pairs} | {} |",
                    timed.result.comparison.verdict
                );
            }
        }
    }
    let remarks: Vec<String> = remarks(findings).iter().map(|line| format!("- {}\n", cell(line))).collect();
    if !remarks.is_empty() {
        out += "\n";
    }
    out + &remarks.concat()
}

/// A verdict with its interval, as one cell.
pub(crate) fn verdict(timed: &Timed) -> String {
    let [gain, low, high] = gains(timed);
    format!("{} {gain:.3} ({low:.3} to {high:.3})", timed.result.comparison.verdict)
}
