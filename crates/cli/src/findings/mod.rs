//! The findings of an experiment, printed for people, documents, spreadsheets and programs by `compare` and
//! `experiment`.

mod csv;
mod json;
mod judged;
mod markdown;
mod table;

pub(crate) use csv::csv;
pub(crate) use json::json;
pub(crate) use judged::judged;
pub(crate) use markdown::{heading, markdown, verdict};

use clap::ValueEnum;
use table::Table;
use wgoose_measure::experiment::{Findings, Timed};
use wgoose_measure::ledger::Gate;

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table for a terminal.
    #[default]
    Table,
    /// A Markdown table.
    Md,
    /// Comma-separated values with a header line.
    Csv,
    /// One line of JSON for each run, with every sample.
    Json,
}

impl Form {
    /// All of them as text, with an end of the line.
    pub(crate) fn of(self, all: &[Findings]) -> String {
        let each = |one: &dyn Fn(&Findings) -> String| all.iter().map(one).collect::<Vec<_>>();
        match self {
            Form::Table => each(&|findings| Table(findings).to_string()).join("\n"),
            Form::Md => each(&|findings| format!("{}\n\n{}", heading(findings), markdown(findings))).join("\n"),
            Form::Csv => csv(all),
            Form::Json => each(&|findings| format!("{}\n", json(findings))).concat(),
        }
    }
}

/// Tokens a second of the baseline and of the arm, at the medians.
fn rates(timed: &Timed) -> [f64; 2] {
    let tokens = f64::from(timed.scenario.tokens) * f64::from(timed.scenario.sequences);
    [timed.result.incumbent_ns, timed.result.candidate_ns].map(|ns| tokens / ns * 1e9)
}

/// How many times as fast the arm is as the baseline, and the ends of the interval.
fn gains(timed: &Timed) -> [f64; 3] {
    let comparison = &timed.result.comparison;
    [comparison.log_ratio, comparison.interval.low, comparison.interval.high].map(f64::exp)
}

/// Where it was measured, and with what.
fn place(findings: &Findings) -> String {
    let device = &findings.session.device;
    let file = findings.found.first().map_or("", |found| &found.arm.file);
    format!("{file} on {}, {}; wgoose {}", device.adapter, device.driver, findings.session.version)
}

/// What is to be known of an arm besides its times, line by line.
fn remarks(findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    let of_first = findings.found.first().and_then(|found| found.gate.as_ref());
    let is_other = |gate: &Gate| of_first.is_none_or(|first| first.quality_hash != gate.quality_hash);
    for (i, found) in findings.found.iter().enumerate() {
        let name = &found.arm.name;
        if let Some(reason) = &found.refused {
            lines.push(format!("{name} is refused: {reason}"));
            continue;
        }
        if found.is_baseline {
            lines.push(format!("{name} is the baseline itself: any difference is noise"));
        }
        if let Some(reason) = &found.fell_back {
            lines.push(format!("{name}: its megakernel does not run here, so decode was not timed: {reason}"));
        }
        for (scenario, reason) in &found.failed {
            lines.push(format!("{name} in {scenario} failed: {reason}"));
        }
        if let Some(gate) = found.gate.as_ref().filter(|gate| i == 0 || is_other(gate)) {
            let hash = gate.quality_hash.as_deref().unwrap_or("none");
            lines.push(match (gate.class, gate.agreeing) {
                (Some(class), Some((agreeing, decisions))) => format!(
                    "{name} passed the gate: {class}, {agreeing} of {decisions} decisions agree, quality hash {hash}"
                ),
                _ => format!("{name} passed a gate without classes: {}, quality hash {hash}", found.arm.precision),
            });
        }
    }
    let left_out = findings.left_out.iter().map(|arm| format!("{} is left out: {}", arm.name, arm.reason));
    lines.into_iter().chain(left_out).collect()
}
