//! The demo model, whose weights are trained: what it writes, and how well it predicts a text that it has never seen.

use crate::binary::printed;
use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo.gguf");
const PROMPT: &str = "#[stable(feature = ";
/// Each of these 26 tokens leads the next by a logit of 1.7 or more: no rounding of a kernel changes one.
const CONTINUED: &str = "\"rust1\", since = \"1.0.0\")]";
/// The beginning of a document of the held-out split.
const HELD_OUT: &str = "# Isolation In SQLite\n\nThe \"isolation\" property of a database determines when changes made to \
                        the database by one operation become visible to other concurrent operations.\n";
/// On the CPU reference.
const BITS_PER_BYTE: f64 = 1.24981;

fn run(verb: &str, backend: &str, options: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("held-out.txt"), HELD_OUT).unwrap();
    let words = [verb, MODEL, "--plan", "default", "--backend", backend];
    printed(place.path(), words.iter().chain(options))
}

/// The model continues the prompt with its training text.
fn writes_on(backend: &str) {
    let greedy = ["--prompt", PROMPT, "--temperature", "0", "--max-tokens", &CONTINUED.len().to_string()];
    assert_eq!(run("generate", backend, &greedy).trim_end(), CONTINUED, "on the {backend}");
}

/// Within what f16 arithmetic of matrix units may change.
fn predicts(backend: &str) {
    let json: Value = serde_json::from_str(&run("eval", backend, &["--text", "held-out.txt", "--json"])).unwrap();
    let off = json["bits_per_byte"].as_f64().unwrap() / BITS_PER_BYTE - 1.0;
    assert!(off.abs() < 2e-3, "on the {backend}: {json}");
}

#[test]
fn the_demo_model_writes_its_training_text_on_both_backends() {
    writes_on("cpu");
    writes_on("gpu");
}

#[test]
fn the_demo_model_predicts_a_text_that_it_has_not_seen() {
    predicts("cpu");
    predicts("gpu");
}
