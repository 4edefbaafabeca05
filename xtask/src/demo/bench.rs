//! What `wgoose bench --json` reports, and two such reports side by side.

use crate::shell::{Error, Result};
use serde::Deserialize;
use std::fmt::Write;

/// One benchmark of one plan.
#[derive(Deserialize)]
pub(crate) struct Bench {
    load_ms: f64,
    first_token_ms: f64,
    prefill_tok_s: f64,
    decode_tok_s: f64,
    /// Only where the system tells.
    peak_memory_mib: Option<f64>,
    /// Content hash of the plan.
    plan: String,
    /// Two plans that answer alike have the same.
    pub(crate) quality_hash: String,
}

impl Bench {
    /// Reads the output, one JSON object; further fields are not our concern.
    ///
    /// # Errors
    /// When it is something else, or a figure is missing.
    pub(crate) fn parse(output: &str) -> Result<Self> {
        serde_json::from_str(output).map_err(|e| Error::Other(format!("`wgoose bench --json` wrote no report: {e}")))
    }
}

/// A table for someone who sees these figures for the first time; the gain is above 1 where tuning helped. Where the
/// default stayed, one plan was measured twice, and what differs is no gain.
pub(crate) fn table(before: &Bench, after: &Bench) -> String {
    type Figure = fn(&Bench) -> f64;
    // (what, figure, whether more is better)
    let rows: [(&str, Figure, bool); 5] = [
        ("reading a prompt, tokens/s", |b| b.prefill_tok_s, true),
        ("writing, tokens/s", |b| b.decode_tok_s, true),
        ("loading, ms", |b| b.load_ms, false),
        ("first token, ms", |b| b.first_token_ms, false),
        ("peak memory, MiB", |b| b.peak_memory_mib.unwrap_or(f64::NAN), false),
    ];
    let is_one_plan = before.plan == after.plan;
    let mut text = format!("{:<28}{:>12}{:>12}{:>10}\n", "", "default", "tuned", "gain");
    for (what, figure, more_is_better) in rows {
        let (old, new) = (figure(before), figure(after));
        let gain = if more_is_better { new / old } else { old / new };
        let gain = if gain.is_finite() && !is_one_plan { format!("{gain:.2} x") } else { "-".into() };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:<28}{old:>12.1}{new:>12.1}{gain:>10}");
    }
    let same = if before.quality_hash == after.quality_hash { "the same" } else { "DIFFERENT" };
    // Writing to a string cannot fail.
    let _ = write!(text, "{:<28}{same:>34}", "answers");
    if is_one_plan {
        text += "\nNothing was faster than the default in this time: both columns are that plan, and differ by chance.";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(plan: &str, decode: f64, load: f64, hash: &str) -> Bench {
        let text = format!(
            r#"{{"plan":"{plan}","load_ms":{load},"prefill_tok_s":0,"decode_tok_s":{decode},"first_token_ms":5,"peak_memory_mib":64,"quality_hash":"{hash}","more":1}}"#
        );
        Bench::parse(&text).unwrap()
    }

    #[test]
    fn gains_point_the_right_way() {
        let text = table(&report("one", 10.0, 30.0, "a"), &report("other", 25.0, 20.0, "a"));
        let line = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        assert!(line("writing").ends_with("2.50 x"), "{text}");
        assert!(line("loading").ends_with("1.50 x"), "{text}");
        assert!(line("reading").ends_with('-'), "{text}");
        assert!(line("answers").ends_with("the same"), "{text}");
    }

    #[test]
    fn one_plan_has_no_gain() {
        let text = table(&report("one", 10.0, 30.0, "a"), &report("one", 16.0, 20.0, "a"));
        assert!(!text.contains(" x\n") && text.contains("differ by chance"), "{text}");
    }

    #[test]
    fn different_answers_are_shouted() {
        assert!(table(&report("one", 1.0, 1.0, "a"), &report("other", 1.0, 1.0, "b")).ends_with("DIFFERENT"));
    }

    #[test]
    fn a_missing_figure_is_named() {
        let error = Bench::parse(r#"{"load_ms":1}"#).err().unwrap().to_string();
        assert!(error.contains("first_token_ms"), "{error}");
    }
}
