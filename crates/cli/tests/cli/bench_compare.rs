//! `bench compare`: what saved records say of each other.

use crate::binary::{said, wgoose};
use std::fs;
use std::path::Path;

/// A record of one title, whose runs took these times.
fn record(change: &str, decode_ms: &[f64], quality: &str) -> String {
    format!(
        r#"{{"title":"a GPU","change":"{change}","at":1,"model":"m.gguf","fingerprint":"f","device":"d, driver 1","plan":"p","prefill_chunk":64,"prefill_tokens":32,"decode_tokens":64,"sequences":1,"load_ms":10.0,"first_token_ms":20.0,"prefill_tok_s":1000.0,"decode_tok_s":500.0,"peak_memory_mib":null,"quality_hash":"{quality}","prefill_ms":[32.0,32.1,31.9,32.0,32.0,32.1],"decode_ms":{decode_ms:?}}}"#
    )
}

const BEFORE: [f64; 6] = [100.0, 100.2, 99.9, 100.1, 100.0, 99.8];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let slower: Vec<f64> = BEFORE.iter().map(|ms| ms * 1.1).collect();
    let lines = [
        record("before", &BEFORE, "aa"),
        record("after", &slower, "bb"),
        record("few", &slower[..5], "aa"),
        record("again", &BEFORE, "aa"),
    ];
    fs::write(folder.path().join("benchmarks.jsonl"), lines.join("\n") + "\n").unwrap();
    fs::write(folder.path().join("before.jsonl"), record("before", &BEFORE, "aa")).unwrap();
    folder
}

fn compare(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let output = wgoose(folder, ["bench", "compare"].into_iter().chain(line.split_whitespace()));
    let code = output.status.code();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (code, text, said(output))
}

/// The verdicts of reading and of writing.
fn verdicts(folder: &Path, line: &str) -> Vec<String> {
    let (code, text, said) = compare(folder, &format!("{line} --json"));
    assert_eq!(code, Some(0), "{said}");
    let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    rows.map(|row| row["verdict"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn records_give_each_of_the_four_verdicts() {
    let folder = folder();
    assert_eq!(verdicts(folder.path(), "before after"), ["SAME", "SLOW"]);
    assert_eq!(verdicts(folder.path(), "after before"), ["SAME", "FAST"]);
    assert_eq!(verdicts(folder.path(), "before few"), ["SAME", "AMBIGUOUS"], "five runs never suffice");
    let few = |line: &str| compare(folder.path(), line).2;
    assert!(few("before few").contains("5 runs are too few for a verdict: measure with --runs 6 or more"));
    assert!(!few("before after").contains("too few"));
    assert_eq!(verdicts(folder.path(), "before.jsonl again"), ["SAME", "SAME"]);
    let (_, table, _) = compare(folder.path(), "before after --picture p.svg");
    let picture = fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(
        picture.contains(">64 tokens written</text>") && picture.contains("100.00 → 110.00 ms · ×0.91"),
        "{picture}"
    );
    assert!(table.contains("m.gguf on d, driver 1\n") && table.contains("other answers\n"), "{table}");
    assert!(table.contains("64 tokens written") && table.contains("0.909 (0.909 to 0.909)"), "{table}");
}

#[test]
fn an_unwanted_verdict_fails_the_comparison() {
    let folder = folder();
    let (code, table, said) = compare(folder.path(), "before after --fail-on slow,ambiguous");
    assert_eq!((code, table.contains("SLOW")), (Some(1), true), "the table is printed first");
    assert!(said.contains("1 of 2 are SLOW"), "{said}");
    assert_eq!(compare(folder.path(), "before again --fail-on slow,ambiguous").0, Some(0));
    assert_eq!(compare(folder.path(), "after before --fail-on slow").0, Some(0), "faster is no failure");
}

#[test]
fn incomparable_records_are_refused_with_the_reason() {
    let folder = folder();
    let other = record("other", &BEFORE, "aa").replace("driver 1", "driver 2");
    fs::write(folder.path().join("other.jsonl"), other).unwrap();
    fs::write(folder.path().join("text.jsonl"), "a goose\n").unwrap();
    fs::write(folder.path().join("none.jsonl"), "\n").unwrap();
    for (line, why) in [
        ("before nothing", "nothing in benchmarks.jsonl is called 'nothing'"),
        ("before other.jsonl", "'before' and 'other.jsonl' have no work in common"),
        ("before text.jsonl", "text.jsonl:1: expected value"),
        ("before none.jsonl", "'none.jsonl' has no record in it"),
    ] {
        let (code, _, said) = compare(folder.path(), line);
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    }
    assert_eq!(compare(folder.path(), "before before").0, Some(2));
    assert_eq!(compare(folder.path(), "before after --fail-on odd").0, Some(2));
}
