//! `bench --against llama-bench`: a small script that prints what llama-bench prints.
#![cfg(unix)]

use crate::binary::{printed, said, synth, wgoose};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// As b6800 prints it, for the lengths that it is asked for.
const PEER: &str = r#"echo "$@" > asked
cat <<'JSON'
[
  {"build_commit": "3a077146a", "build_number": 6800, "cpu_info": "AMD EPYC", "gpu_info": "llvmpipe", "backends": "Vulkan",
   "model_filename": "m.gguf", "model_type": "rwkv7 0.1B F16", "n_batch": 2048, "n_prompt": 8, "n_gen": 0, "n_depth": 0,
   "avg_ns": 2000000, "stddev_ns": 0, "avg_ts": 4000.0, "stddev_ts": 0.0, "samples_ns": [2000000, 2100000], "samples_ts": [4000.0, 3809.5]},
  {"build_commit": "3a077146a", "build_number": 6800, "cpu_info": "AMD EPYC", "gpu_info": "llvmpipe", "backends": "Vulkan",
   "model_filename": "m.gguf", "n_prompt": 0, "n_gen": 4, "avg_ns": 8000000, "samples_ns": [8000000, 8000000], "samples_ts": [500.0, 500.0]}
]
JSON
"#;

fn folder(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "m.gguf", "");
    let peer = folder.path().join("peer");
    fs::write(&peer, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&peer, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

const LINE: &str = "bench m.gguf -p 8 --decode 1 -n 4 -r 2 --against llama-bench=./peer";

fn run(folder: &Path, more: &str) -> String {
    printed(folder, LINE.split_whitespace().chain(more.split_whitespace()))
}

#[test]
fn a_peer_runs_the_model_file_and_its_samples_are_recorded() {
    let folder = folder(PEER);
    let table = run(folder.path(), "--out-record r.jsonl");
    assert!(table.contains("llama.cpp b6800 (3a077146a), Vulkan: 3902 tokens/s on llvmpipe, this is "), "{table}");
    assert!(
        table.contains("500 tokens/s on llvmpipe, this is ") && table.contains("(llama-bench on this file"),
        "{table}"
    );
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked, "-m m.gguf -p 8 -n 4 -r 2 -o json\n");
    let record = fs::read_to_string(folder.path().join("r.jsonl")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["rows"][0]["references"][0]["samples_ms"], serde_json::json!([2.0, 2.1]));
    let markdown = run(folder.path(), "--format md");
    let peer = " | llama.cpp b6800 (3a077146a), Vulkan |  99 |             tg4 |        500.00 ± 0.00 |";
    assert!(markdown.contains(peer), "{markdown}");
}

#[test]
fn a_peer_without_figures_is_refused_in_one_line() {
    for (script, why) in [
        ("echo oh no >&2; exit 3", "'./peer' failed (exit status: 3): oh no"),
        ("exit 3", "'./peer' failed (exit status: 3): it says nothing"),
        ("echo usage: llama-bench", "'./peer' printed something else than the results of llama-bench -o json"),
        ("echo '[{\"n_prompt\": 8}]'", "missing field"),
        ("echo '[]'", "'./peer' printed no times for: prompt of 8 tokens"),
    ] {
        let folder = folder(script);
        let output = wgoose(folder.path(), LINE.split_whitespace());
        let (code, printed, said) = (output.status.code(), output.stdout.len(), said(output));
        assert_eq!((code, printed), (Some(1), 0), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{script}: {said}");
    }
    let folder = folder("");
    let fails = |line: &str| said(wgoose(folder.path(), line.split_whitespace()));
    let absent = fails("bench m.gguf --against llama-bench=./absent");
    assert!(absent.contains("cannot start './absent'") && absent.contains("--against llama-bench=PATH"), "{absent}");
    assert!(fails("bench m.gguf --decode 8 --against llama-bench=./peer").contains("llama-bench measures prompts"));
    assert!(fails("bench m.gguf --against ollama").contains("expected llama-bench or llama-bench=PATH"));
}
