//! An experiment as one drawing.

use crate::numbers::Ratio;
use crate::{Gain, gains, standalone};
use wgoose_measure::experiment::Findings;

/// Most characters of an arm's name with its scenario.
const MOST_NAME: usize = 34;

/// A dot with its interval for each arm in each scenario, as an SVG file that is readable in light and in dark.
pub fn picture(findings: &Findings) -> String {
    let mut rows = Vec::new();
    for scenario in findings.scenarios() {
        for found in &findings.found {
            for timed in found.timed.iter().filter(|timed| timed.scenario == scenario) {
                let (comparison, ratio) = (&timed.result.comparison, Ratio::of(&timed.result.comparison));
                rows.push(Gain {
                    name: shortened(&format!("{}, {scenario}", found.arm.name)),
                    detail: format!("{} {}", ratio.gain(), comparison.verdict),
                    gain: ratio.gain,
                    interval: ratio.interval,
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
