//! An experiment as one drawing.

use super::findings::Findings;
use crate::report::{Row, gain, gains, standalone, time};

/// A dot with its interval for each arm in each scenario, as an SVG file that is readable in light and in dark.
pub fn picture(findings: &Findings) -> String {
    let mut rows = Vec::new();
    for scenario in findings.scenarios() {
        for found in &findings.found {
            for timed in found.timed.iter().filter(|timed| timed.scenario == scenario) {
                let (result, comparison) = (&timed.result, &timed.result.comparison);
                let [before, now] = [result.incumbent_ns, result.candidate_ns].map(time);
                let gained = gain(comparison.log_ratio.exp());
                rows.push(Row {
                    name: format!("{}, {scenario}", found.arm.name),
                    detail: format!("{before} → {now} · {gained} {}", comparison.verdict),
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
