//! An evaluation as JSON, for the command line and for Python.

use super::{Divergence, Evaluation, Score, Stretch};
use serde_json::{Map, Value, json};

impl Evaluation {
    /// The fields of the model's score; with a reference, `reference` and `divergence` beside them.
    pub fn json(&self) -> Value {
        let mut fields = score(&self.score);
        if let Some((reference, divergence)) = &self.reference {
            fields.insert("reference".into(), Value::Object(score(reference)));
            fields.insert("divergence".into(), of(divergence));
        }
        Value::Object(fields)
    }
}

fn score(score: &Score) -> Map<String, Value> {
    let fields = [
        ("tokens", json!(score.tokens)),
        ("bytes", json!(score.bytes)),
        ("bits_per_byte", json!(score.bits_per_byte())),
        ("bits_per_token", json!(score.bits_per_token())),
        ("perplexity", json!(score.perplexity())),
        ("relative_standard_error_of_perplexity", json!(score.standard_error())),
        ("tokens_per_second", json!(score.tokens_per_second())),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of(divergence: &Divergence) -> Value {
    let mut all = stretch(divergence.all());
    all["kl_99"] = json!(divergence.kl_99());
    all["by_position"] = divergence.stretches().iter().map(stretch).collect();
    all
}

fn stretch(stretch: &Stretch) -> Value {
    json!({
        "first": stretch.first,
        "tokens": stretch.tokens,
        "mean_kl": stretch.mean_kl(),
        "max_kl": stretch.max_kl,
        "agreement": stretch.agreement(),
        "rms": stretch.rms(),
    })
}
