//! `--gpu-budget`, `--eager`, `info --memory`: the same results in less memory, and where the bytes are.

use crate::binary::{printed, said, synth, wgoose};
use std::path::Path;

fn json(folder: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap()
}

/// The least budget, as the refusal of one byte says.
fn least(folder: &Path) -> u64 {
    let output = wgoose(folder, "info tiny.gguf --memory --gpu-budget 1".split(' '));
    assert_eq!(output.status.code(), Some(2));
    let error = said(output);
    assert_eq!(error.lines().count(), 1, "{error}");
    let (_, need) = error.split_once("at least ").unwrap();
    need.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_budget_changes_no_byte_of_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, "dev synth tiny.gguf --layers 5 --width 128 --ffn 256 --vocab 320 --ranks 32,24,16,48".split(' '));
    std::fs::write(folder.join("tokens.json"), serde_json::to_string(&(0..80).collect::<Vec<u32>>()).unwrap()).unwrap();
    let need = least(folder);
    let mut results = Vec::new();
    for options in [String::new(), "--eager".into(), format!("--gpu-budget {need}"), "--gpu-budget 1GiB".into()] {
        let line = format!("dev logits tiny.gguf --tokens tokens.json --out l.npy --state-out s.st {options}");
        printed(folder, line.split_whitespace());
        results.push(["l.npy", "s.st"].map(|f| std::fs::read(folder.join(f)).unwrap()));
    }
    assert!(results.iter().all(|r| *r == results[0]));
    // What is told beforehand is what is refused.
    assert_eq!(json(folder, "info tiny.gguf --memory --json")["least_budget"], need);
    // Three bytes less than needed is an error, not a wrong result.
    let output = wgoose(folder, format!("info tiny.gguf --memory --gpu-budget {}", need - 3).split(' '));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn memory_is_predicted_and_measured() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let need = least(folder);
    for (options, streams) in [(String::new(), false), (format!("--gpu-budget {need}"), true)] {
        let report = json(folder, &format!("info tiny.gguf --memory --json {options}"));
        let part = |name: &str, what: &str| {
            let parts = report["parts"].as_array().unwrap();
            parts.iter().find(|p| p["part"] == name).unwrap()[what].as_u64().unwrap()
        };
        for name in ["file, mapped", "weights", "ring for streamed weights", "state", "activations"] {
            let (predicted, measured) = (part(name, "predicted"), part(name, "measured"));
            assert!(measured <= predicted && predicted <= measured + 1024, "{name}: {predicted}, measured {measured}");
        }
        assert_eq!(part("file, mapped", "measured"), std::fs::metadata(folder.join("tiny.gguf")).unwrap().len());
        assert_eq!(part("ring for streamed weights", "measured") > 0, streams);
        let used = report["peak_used"].as_u64().unwrap();
        assert!(!streams || used <= need, "{used} of {need} bytes");
        assert!(printed(folder, format!("info tiny.gguf --memory {options}").split_whitespace()).contains("predicted"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_weights_leave_no_second_copy_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    // Most of it is one large matrix, and another.
    printed(
        folder,
        "dev synth large.gguf --layers 1 --width 128 --ffn 256 --vocab 200000 --ranks 32,24,16,48".split(' '),
    );
    let anonymous = |model: &str| {
        let report = json(folder, &format!("bench --cold --runs 1 --json {model}"));
        let warm = &report["conditions"][0]["samples"][0];
        let figure = |name: &str| warm[name].as_u64().unwrap();
        // A software device has its memory here too.
        figure("peak_anonymous_bytes").saturating_sub(figure("device_reserved_bytes"))
    };
    let file = std::fs::metadata(folder.join("large.gguf")).unwrap().len();
    let (tiny, large) = (anonymous("tiny.gguf"), anonymous("large.gguf"));
    assert!(large < tiny + file / 3, "{tiny} bytes for a tiny model, {large} for one of {file}");
}
