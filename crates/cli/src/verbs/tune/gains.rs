//! The gains of a tuned plan, for people.

use std::fmt;
use wgoose_kernels::plan::{Evidence, ScenarioEvidence};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_tuner::sweep::{Candidate, Timed};

/// What a plan gains over the device's default, by its own evidence.
pub(super) struct Gains<'a> {
    pub(super) plan: &'a Plan,
    pub(super) catalogue: &'a Catalogue,
    /// Whether its answers have the hash of the default's.
    pub(super) answers_alike: Option<bool>,
    /// The comparison that looked the best.
    pub(super) best_seen: Option<&'a (Candidate, Timed)>,
}

impl fmt::Display for Gains<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gains { plan, catalogue, answers_alike, best_seen } = self;
        let scenarios = plan.evidence.as_ref().map(|evidence| &evidence.scenarios[..]).unwrap_or_default();
        if scenarios.is_empty() {
            writeln!(f, "nothing faster than the device's default was found; a longer --budget tries more")?;
            if let Some((candidate, Timed { scenario, result, .. })) = best_seen {
                let (ratio, interval) = (result.comparison.log_ratio.exp(), result.comparison.interval);
                let (least, most) = (interval.low.exp(), interval.high.exp());
                writeln!(f, "the best comparison: {candidate} in {scenario}, {ratio:.2} x ({least:.2} to {most:.2})")?;
            }
        } else {
            writeln!(f, "{:<34}{:>11}{:>11}   ratio, 95 % interval", "", "default", "tuned")?;
        }
        for scenario in scenarios {
            let ScenarioEvidence { tokens, default_us, tuned_us, speedup: (least, most), .. } = scenario;
            let (name, shown): (String, &dyn Fn(&f64) -> f64) = match scenario.scenario.as_str() {
                "first token" => ("time to first token, ms".to_owned(), &|us| us / 1e3),
                _ => (format!("{} (tokens/s)", name(scenario)), &|us| f64::from(*tokens) / us * 1e6),
            };
            let ratio = default_us / tuned_us;
            writeln!(
                f,
                "{name:<34}{:>11.1}{:>11.1}   {ratio:.2} x ({least:.2} to {most:.2})",
                shown(default_us),
                shown(tuned_us)
            )?;
        }
        match answers_alike {
            Some(true) if !scenarios.is_empty() => writeln!(f, "{:<34}{:>22}", "answers", "identical")?,
            Some(false) => writeln!(f, "{:<34}{:>22}", "answers", "within the tolerance of the precision")?,
            _ => {}
        }
        if let Some(Evidence { class: Some(class), decisions, checked, .. }) = &plan.evidence
            && !scenarios.is_empty()
        {
            writeln!(f, "{class}: {decisions} of {decisions} decisions agree with the reference")?;
            writeln!(f, "not checked beyond {checked}")?;
        }
        let least = plan.least_precise(catalogue);
        write!(f, "precision: {least}")?;
        if least != Precision::F32 {
            write!(f, "; --precision f32 leaves out what rounds more")?;
        }
        Ok(())
    }
}

/// What is done in a scenario.
fn name(scenario: &ScenarioEvidence) -> String {
    let tokens = scenario.tokens;
    match scenario.scenario.as_str() {
        "decode" => "decode, batch size 1".to_owned(),
        "batched decode" => format!("decode, batch size {tokens}"),
        "prefill" => format!("prefill, {tokens} tokens"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_plans::catalogue;

    #[test]
    fn rates_are_of_all_tokens_and_the_table_fits_a_terminal() {
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans/nvidia-h100-80gb-hbm3/24x2048-f16.ron");
        let mut plan = Plan::load(shipped.as_ref()).unwrap();
        let scenario = |scenario: &str, tokens, default_us, tuned_us| ScenarioEvidence {
            scenario: scenario.to_owned(),
            tokens,
            default_us,
            tuned_us,
            speedup: (1.25, 1.5),
            pairs: 6,
        };
        plan.evidence.as_mut().unwrap().scenarios = vec![
            scenario("decode", 1, 2000.0, 1000.0),
            scenario("prefill", 512, 51200.0, 25600.0),
            scenario("first token", 32, 400e3, 320e3),
        ];
        let (catalogue, answers_alike) = (&catalogue::embedded(), Some(true));
        let text = Gains { plan: &plan, catalogue, answers_alike, best_seen: None }.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        let expected =
            ["decode,", "batch", "size", "1", "(tokens/s)", "500.0", "1000.0", "2.00", "x", "(1.25", "to", "1.50)"];
        assert_eq!(words, expected);
        assert!(lines[2].contains("prefill, 512 tokens") && lines[2].contains("20000.0"), "{text}");
        assert!(lines[3].contains(", ms ") && lines[3].contains("400.0      320.0"), "{text}");
        assert_eq!(lines[4].split_whitespace().collect::<Vec<_>>(), ["answers", "identical"]);
        assert_eq!(lines[5], "f16: 687 of 687 decisions agree with the reference");
        assert_eq!(lines[6], "not checked beyond 4611 tokens, 128 sequences");
        assert!(lines[7].starts_with("precision: "), "{text}");
    }
}
