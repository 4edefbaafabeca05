//! `bench --cold`: fresh processes, the same logits, every figure there.

use crate::binary::{printed, synth, wgoose};
use std::path::Path;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    folder
}

fn report(folder: &Path, options: &str) -> serde_json::Value {
    let line = format!("bench --cold --model tiny.gguf --prompt-tokens 5 --json {options}");
    serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap()
}

#[test]
fn every_condition_has_its_figures() {
    let folder = folder();
    let report = report(folder.path(), "--runs 2 --out-record cold.jsonl --timeline timeline.json");
    let record = std::fs::read_to_string(folder.path().join("cold.jsonl")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&record).unwrap(), report);
    assert!(folder.path().join("timeline.json").exists());
    assert_eq!((&report["model"], &report["prompt_tokens"]), (&"tiny.gguf".into(), &5.into()));
    let bytes = std::fs::metadata(folder.path().join("tiny.gguf")).unwrap().len();
    assert_eq!(report["file_bytes"], bytes);
    let conditions = report["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>(), ["warm", "cold pipelines"]);
    let mut figures =
        vec!["wall_ms", "model_open_ms", "session_ready_ms", "first_logits_ms", "uploaded_bytes", "upload_ms"];
    if cfg!(target_os = "linux") {
        figures.extend(["peak_anonymous_bytes", "peak_resident_bytes"]);
    }
    for condition in conditions {
        let samples = condition["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 2);
        for sample in samples {
            assert_eq!(sample["logits"], report["logits"]);
            let figure = |name: &str| sample[name].as_f64().unwrap();
            for name in &figures {
                assert!(figure(name) > 0.0, "{name}: {sample}");
            }
            assert!(figure("model_open_ms") <= figure("session_ready_ms"), "{sample}");
            assert!(figure("session_ready_ms") <= figure("first_logits_ms"), "{sample}");
            assert!(figure("first_logits_ms") <= figure("wall_ms"), "{sample}");
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
}

#[test]
fn cold_pages_are_cold_or_not_measured() {
    let folder = folder();
    let report = report(folder.path(), "--runs 1 --drop-page-cache");
    let conditions = report["conditions"].as_array().unwrap();
    let cold = conditions.iter().find(|c| c["name"] == "cold pages").unwrap();
    let samples = cold["samples"].as_array().unwrap();
    match cold["not_measured"].as_str() {
        Some(why) => assert!(samples.is_empty() && why.contains("memory"), "{why}"),
        None => assert!(samples.len() == 1 && samples[0]["resident_before"].as_f64().unwrap() <= 0.01, "{cold}"),
    }
}

#[test]
fn the_table_names_what_was_measured() {
    let folder = folder();
    let table = printed(folder.path(), "bench --cold --model tiny.gguf --runs 1".split(' '));
    for part in ["warm, 1 start ", "cold pipelines, 1 start ", "process start to first logits, ms", "busy with map, ms"]
    {
        assert!(table.contains(part), "{part} is not in {table}");
    }
}

#[test]
fn the_child_is_not_advertised() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!printed(folder.path(), ["--help"]).contains("cold-child"));
    // What a parent would read from one that fails: nothing.
    let output = wgoose(folder.path(), "cold-child --model a --prompt-tokens 1 --pipelines b".split(' '));
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
}
