//! `wgoose serve`: clients that leave while their prompt is prefilled, and the end of the grace period.

use crate::binary::synth;
use crate::served::{Connection, Served};
use serde_json::{Value, json};
use std::path::Path;

/// The lines of an access log, once one of them is as wanted.
fn lines_with(path: &Path, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let text = std::fs::read_to_string(path).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let found = whole.map(|line| serde_json::from_str(line).unwrap()).find(&is_wanted);
        if let Some(line) = found {
            return line;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_prompt_whose_client_leaves_is_not_prefilled_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--parallel", "1", "--access-log", "access.jsonl"];
    let served = Served::with(folder.path(), "tiny.gguf", &options);
    // Seconds of work on the fastest machine.
    let prompt = vec![1; 1_000_000];
    for stream in [true, false] {
        let mut gone = Connection::to(&served.address);
        let body = json!({ "prompt": prompt, "max_tokens": 1, "stream": stream });
        gone.send("POST", "/v1/completions", &[], &body.to_string());
        while !served.ask("GET", "/metrics", "").1.contains("wgoose_running 1\n") {}
        drop(gone);
        // The only place in the batch is free again.
        let other = served.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 }));
        assert_eq!(other["usage"]["completion_tokens"], 1);
        let log = folder.path().join("access.jsonl");
        let line = lines_with(&log, |line| line["client_gone"] == true && line["status"].is_u64() == stream);
        let read = line["prefilled_tokens"].as_u64().unwrap();
        assert!(read < 1_000_000 && line["prompt_tokens"] == 1_000_000 && line["generated_tokens"] == 0, "{line}");
        assert_eq!(line["finish_reasons"], json!(["given_up"]));
    }
}

#[cfg(unix)]
#[test]
fn what_outlasts_the_grace_period_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--grace", "0", "--max-tokens", "100000000", "--access-log", "access.jsonl"];
    let mut served = Served::with(folder.path(), "tiny.gguf", &options);
    let mut open = Connection::to(&served.address);
    let endless = json!({ "prompt": "a", "max_tokens": 100_000_000, "stream": true, "logit_bias": { "0": -1e9 } });
    open.send("POST", "/v1/completions", &[], &endless.to_string());
    open.bytes(400);
    let id = served.child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let rest = open.rest();
    assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"));
    let line = lines_with(&folder.path().join("access.jsonl"), |line| line["path"] == "/v1/completions");
    assert!(line["cut"] == true && line["client_gone"] == false && line["status"] == 200, "{line}");
}
