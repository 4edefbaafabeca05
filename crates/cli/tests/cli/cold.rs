//! `bench --cold`: fresh processes, the same logits, every figure there.

use crate::binary::{printed, synth, wgoose};
use serde_json::Value;
use std::collections::BTreeSet;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    folder
}

/// One run in every condition, for each start compiles what it needs anew: its table, its record and its timeline.
#[test]
fn cold_bench_reports_every_condition() {
    let folder = folder();
    let options = "--runs 2 --drop-page-cache --out-record cold.jsonl --timeline timeline.json";
    let line = format!("bench --cold tiny.gguf --prompt-tokens 5 {options}");
    let table = printed(folder.path(), line.split_whitespace());
    for part in ["warm, 2 starts", "cold pipelines, 2 starts", "process start to first logits, ms", "busy with map, ms"]
    {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    assert!(folder.path().join("timeline.json").exists());
    let record = std::fs::read_to_string(folder.path().join("cold.jsonl")).unwrap();
    let report: Value = serde_json::from_str(&record).unwrap();
    assert_eq!((&report["model"], &report["prompt_tokens"]), (&"tiny.gguf".into(), &5.into()));
    let bytes = std::fs::metadata(folder.path().join("tiny.gguf")).unwrap().len();
    assert_eq!(report["file_bytes"], bytes);
    let conditions = report["conditions"].as_array().unwrap();
    let names: Vec<&str> = conditions.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>(), ["warm", "cold pipelines", "cold pages"].iter().collect());
    for condition in conditions {
        match condition["not_measured"].as_str() {
            // Files in memory have no pages that could be dropped.
            Some(why) => assert!(condition["name"] == "cold pages" && why.contains("memory"), "{condition}"),
            None => are_complete(condition, &report["logits"]),
        }
    }
}

/// Two samples with all their figures, and what sums them up.
fn are_complete(condition: &Value, logits: &Value) {
    let mut figures =
        vec!["wall_ms", "model_open_ms", "session_ready_ms", "first_logits_ms", "uploaded_bytes", "upload_ms"];
    if cfg!(target_os = "linux") {
        figures.extend(["peak_anonymous_bytes", "peak_resident_bytes"]);
    }
    let samples = condition["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 2);
    for sample in samples {
        assert_eq!(&sample["logits"], logits);
        let figure = |name: &str| sample[name].as_f64().unwrap();
        for name in &figures {
            assert!(figure(name) > 0.0, "{name}: {sample}");
        }
        assert!(figure("model_open_ms") <= figure("session_ready_ms"), "{sample}");
        assert!(figure("session_ready_ms") <= figure("first_logits_ms"), "{sample}");
        assert!(figure("first_logits_ms") <= figure("wall_ms"), "{sample}");
        assert!(condition["name"] != "cold pages" || figure("resident_before") <= 0.01, "{sample}");
        for phase in ["map", "device"] {
            assert!(sample["phases_ms"][phase].as_f64().unwrap() > 0.0, "{phase}: {sample}");
        }
    }
    let walls: Vec<f64> = samples.iter().map(|s| s["wall_ms"].as_f64().unwrap()).collect();
    let wall = |what: &str| condition["summary"]["wall_ms"][what].as_f64().unwrap();
    assert_eq!((wall("min"), wall("max")), (walls[0].min(walls[1]), walls[0].max(walls[1])));
    assert!((wall("median") - (walls[0] + walls[1]) / 2.0).abs() < 1e-6);
    assert!(condition["summary"]["phases_ms.map"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_child_is_not_advertised() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!printed(folder.path(), ["--help"]).contains("cold-child"));
    // What a parent would read from one that fails: nothing.
    let output = wgoose(folder.path(), "cold-child --model a --prompt-tokens 1 --pipelines b".split(' '));
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
}
