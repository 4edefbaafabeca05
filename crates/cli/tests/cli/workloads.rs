//! `bench --workload` and its like: every row there, with its spread, and the same to read back later.

use crate::binary::{printed, synth};
use std::path::Path;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    folder
}

fn rows(folder: &Path, options: &str) -> Vec<serde_json::Value> {
    let line = format!("bench tiny.gguf --json --out-record rows.jsonl {options}");
    let report: serde_json::Value = serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap();
    let records = std::fs::read_to_string(folder.join("rows.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
    assert_eq!(last, report);
    for what in ["device", "plan", "fingerprint", "version", "wgpu"] {
        assert!(!report[what].as_str().unwrap().is_empty(), "{what}: {report}");
    }
    assert_eq!((&report["model"], &report["plan_file"]), (&"tiny.gguf".into(), &serde_json::Value::Null));
    assert_eq!((&report["size"], &report["formats"]), (&serde_json::Value::Null, &"F16".into()));
    let rows = report["rows"].as_array().unwrap().clone();
    for row in &rows {
        let ms = |what: &str| row["ms"][what].as_f64().unwrap();
        assert!(0.0 < ms("min") && ms("min") <= ms("median") && ms("median") <= ms("max"), "{row}");
        let is_cold = row["workload"] == "cold";
        assert!(is_cold == row["warm_up"].is_null() && row["references"].as_array().unwrap().is_empty(), "{row}");
        if !is_cold {
            assert!(row["warm_up"]["ms"].as_f64().unwrap() >= 250.0, "{row}");
        }
    }
    rows
}

fn names(rows: &[serde_json::Value]) -> Vec<String> {
    rows.iter().map(|row| format!("{}: {}", row["workload"].as_str().unwrap(), row["what"].as_str().unwrap())).collect()
}

#[test]
fn workloads_measure_the_jobs_they_name() {
    let folder = folder();
    let rows = rows(folder.path(), "--workload fields,document,chat --runs 3");
    let expected = [
        "document: 212 tokens, state read back",
        "fields: 6 fields, 111 tokens, one call",
        "fields: 6 fields, 111 tokens, a call each",
        "chat: first token, 40 after 300",
        "chat: 64 tokens written",
    ];
    assert_eq!(names(&rows), expected);
    for row in &rows {
        let samples: Vec<f64> = row["samples_ms"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        assert_eq!(samples.len(), 3);
        let mut sorted = samples;
        sorted.sort_by(f64::total_cmp);
        assert!((row["ms"]["median"].as_f64().unwrap() - sorted[1]).abs() < 1e-9, "{row}");
    }
    let rate = rows[0]["tokens_per_s"].as_f64().unwrap();
    assert!((rate * rows[0]["ms"]["median"].as_f64().unwrap() - 212e3).abs() < 1e-3);
    assert!(rows[3]["tokens_per_s"].is_null());
}

#[test]
fn lengths_packs_and_sequences_are_rows() {
    let folder = folder();
    let rows = rows(folder.path(), "--prompt-tokens 5,70 --packed 3x20 --decode 1,2 --decode-tokens 4 --runs 1");
    let expected = [
        "prompt: prompt of 5 tokens",
        "prompt: prompt of 70 tokens",
        "packed: 3 prompts of 20 tokens",
        "decode: 4 tokens written",
        "decode: 2 sequences write 4",
    ];
    assert_eq!(names(&rows), expected);
}

#[test]
fn fresh_processes_are_rows_too() {
    let folder = folder();
    let rows = rows(folder.path(), "--workload cold --runs 1");
    assert_eq!(names(&rows), ["cold: first logits of 32, kernels kept", "cold: first logits of 32, kernels compiled"]);
}

#[test]
fn the_table_says_where_and_how() {
    let folder = folder();
    let table = printed(folder.path(), "bench tiny.gguf --prompt-tokens 3 --runs 2".split(' '));
    for part in
        ["tiny.gguf (F16) on ", "default plan ", "prefill chunk ", "2 runs each", "median ms", "prompt of 3 tokens"]
    {
        assert!(table.contains(part), "{part} is not in {table}");
    }
}
