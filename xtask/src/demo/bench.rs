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

    /// Whether both are of one plan.
    pub(crate) fn is_of_plan(&self, other: &Bench) -> bool {
        self.plan == other.plan
    }
}

/// A table for someone who sees these figures for the first time. One plan was measured after the other: on a busy machine what
/// differs may be chance, so that it says no gain.
pub(crate) fn table(before: &Bench, after: &Bench) -> String {
    type Figure = fn(&Bench) -> f64;
    let rows: [(&str, Figure); 5] = [
        ("reading a prompt, tokens/s", |b| b.prefill_tok_s),
        ("writing, tokens/s", |b| b.decode_tok_s),
        ("loading, ms", |b| b.load_ms),
        ("first token, ms", |b| b.first_token_ms),
        ("peak memory, MiB", |b| b.peak_memory_mib.unwrap_or(f64::NAN)),
    ];
    let mut text = format!("{:<28}{:>12}{:>12}\n", "", "default", "tuned");
    for (what, figure) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:<28}{:>12.1}{:>12.1}", figure(before), figure(after));
    }
    let same = if before.quality_hash == after.quality_hash { "the same" } else { "DIFFERENT" };
    // Writing to a string cannot fail.
    let _ = write!(text, "{:<28}{same:>24}", "answers");
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
    fn figures_stand_under_their_plans() {
        let (one, other) = (report("one", 10.0, 30.0, "a"), report("other", 25.0, 20.0, "a"));
        let text = table(&one, &other);
        let line = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap().to_owned();
        assert!(line("writing").ends_with("10.0        25.0"), "{text}");
        assert!(line("loading").ends_with("30.0        20.0"), "{text}");
        assert!(line("answers").ends_with("the same"), "{text}");
        assert!(one.is_of_plan(&one) && !one.is_of_plan(&other));
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
