//! `--timeline`: what a viewer of timelines gets.

use crate::binary::{printed, synth};
use std::collections::BTreeSet;
use std::path::Path;

/// The tracks of a timeline whose events are all whole.
#[track_caller]
fn tracks(path: &Path) -> BTreeSet<String> {
    let timeline: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let of = |kind: &'static str| events.iter().filter(move |e| e["ph"] == kind);
    let named: BTreeSet<u64> =
        of("M").filter(|e| e["name"] == "thread_name").map(|e| e["tid"].as_u64().unwrap()).collect();
    for event in of("X") {
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0, "{event}");
        assert!(named.contains(&event["tid"].as_u64().unwrap()), "a thread without a name: {event}");
        assert!(!event["name"].as_str().unwrap().is_empty(), "{event}");
    }
    of("X").map(|e| e["cat"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn verbs_that_run_a_model_leave_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    std::fs::write(folder.join("tokens.json"), "[1, 2, 3]").unwrap();
    for verb in [
        "generate tiny.gguf --prompt goose --max-tokens 2",
        "dev logits tiny.gguf --tokens tokens.json --out logits.npy",
        "bench --cold tiny.gguf --runs 1",
    ] {
        let path = folder.join("timeline.json");
        printed(folder, format!("{verb} --timeline timeline.json").split(' '));
        let tracks = tracks(&path);
        for track in ["map", "device", "schedule", "allocate", "upload", "compile", "submit", "compute"] {
            assert!(tracks.contains(track), "{verb}: {track} is not among {tracks:?}");
        }
        std::fs::remove_file(path).unwrap();
        let left = std::fs::read_dir(folder)
            .unwrap()
            .filter(|f| f.as_ref().unwrap().file_name().to_str().unwrap().starts_with(".tmp"));
        assert_eq!(left.count(), 0, "{verb} left temporary files");
    }
}
