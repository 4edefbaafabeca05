//! Findings for people.

use super::{gains, place, rates, remarks};
use std::fmt;
use wgoose_measure::experiment::Findings;
use wgoose_session::printable;

/// Columns of an arm's name at least: a table of such names fits a terminal.
const LEAST_NAME: usize = 23;

/// The same at most.
const MOST_NAME: usize = 40;

/// A run of an experiment.
pub(super) struct Table<'a>(pub(super) &'a Findings);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.0;
        writeln!(f, "{}", printable(&place(findings)))?;
        let baseline = findings.found.first().map_or("", |found| &found.arm.name);
        writeln!(f, "held against {}: interleaved pairs, 95 % intervals of the median ratio\n", printable(baseline))?;
        let names = findings.found.iter().map(|found| found.arm.name.chars().count());
        let width = names.max().unwrap_or(0).clamp(LEAST_NAME, MOST_NAME);
        let wide = width + 2;
        writeln!(
            f,
            "{:<wide$}{:>11}{:>11}{:>7}  {:<14}{:>10}",
            "tokens/s", "baseline", "arm", "x", "interval", "verdict"
        )?;
        for scenario in findings.scenarios() {
            writeln!(f, "{scenario}")?;
            for found in &findings.found {
                for timed in found.timed.iter().filter(|timed| timed.scenario == scenario) {
                    let ([before, now], [gain, low, high]) = (rates(timed), gains(timed));
                    let interval = format!("{low:.3} to {high:.3}");
                    let name = printable(&found.arm.name);
                    write!(f, "  {name:<width$}{before:>11.1}{now:>11.1}{gain:>7.3}  {interval:<14}")?;
                    writeln!(f, "{:>10}", timed.result.comparison.verdict)?;
                }
            }
        }
        writeln!(f)?;
        remarks(findings).iter().try_for_each(|line| writeln!(f, "{}", printable(line)))
    }
}
