//! An experiment as one drawing.

use crate::{Gain, gain, gains, standalone};
use wgoose_measure::experiment::Findings;

/// Most characters of an arm's name with its scenario.
const MOST_NAME: usize = 34;

/// A dot with its interval for each arm in each scenario, as an SVG file that is readable in light and in dark.
pub fn picture(findings: &Findings) -> String {
    let mut rows = Vec::new();
    for scenario in findings.scenarios() {
        for found in &findings.found {
            for timed in found.timed.iter().filter(|timed| timed.scenario == scenario) {
                let comparison = &timed.result.comparison;
                rows.push(Gain {
                    name: shortened(&format!("{}, {scenario}", found.arm.name)),
                    detail: format!("{} {}", gain(comparison.log_ratio.exp()), comparison.verdict),
                    gain: comparison.log_ratio.exp(),
                    interval: [comparison.interval.low.exp(), comparison.interval.high.exp()],
                });
            }
        }
    }
    let baseline = findings.found.first().map_or("baseline", |found| &found.arm.name);
    let title = format!("{} on {}", findings.experiment, findings.session.device.adapter);
    standalone(&gains(&title, baseline, &rows))
}

/// What fits beside a verdict.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(MOST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
