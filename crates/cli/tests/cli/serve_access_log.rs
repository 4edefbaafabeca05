//! `wgoose serve --access-log`.

use crate::binary::synth;
use crate::served::{Connection, Served};
use serde_json::{Value, json};
use std::process::Command;

#[cfg(unix)]
#[test]
fn each_request_is_a_line_without_texts_or_keys() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--api-key", "k-secret", "--state-dir", "kept", "--access-log", "access.jsonl"];
    let mut served = Served::with(folder.path(), "tiny.gguf", &options);
    let ask = |method: &str, path: &str, headers: &[&str], body: &str| {
        let mut connection = Connection::to(&served.address);
        connection.send(method, path, headers, body);
        let (status, head, _) = connection.answer();
        (status, head)
    };
    let key = "Authorization: Bearer k-secret";
    let (_, head) = ask("GET", "/health", &[], "");
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned();
    ask("HEAD", "/v1/models", &[key], "");
    ask("GET", "/t-secret?q=t-secret", &[key], "");
    ask("GET", "/v1/models", &["Authorization: Bearer k-wrong"], "");
    ask("TSECRET", "/v1/models", &[key], "");
    let text = json!({ "prompt": "t-secret", "max_tokens": 3, "n": 2, "user": "t-secret" });
    ask("POST", "/v1/completions", &[key], &text.to_string());
    let said = json!([{ "role": "user", "content": "t-secret" }]);
    let chat = json!({ "messages": said, "max_tokens": 2, "stream": true, "session_id": "t-secret" });
    ask("POST", "/v1/chat/completions", &[key], &chat.to_string());
    ask("GET", "/v1/conversations/t-secret", &[key], "");
    let wrong = json!({ "prompt": "t-secret", "t-secret": 1 });
    ask("POST", "/v1/completions", &[key], &wrong.to_string());
    let id_of_child = served.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id_of_child]).status().unwrap().success());
    assert_eq!(served.child.wait().unwrap().code(), Some(0));

    let log = std::fs::read_to_string(folder.path().join("access.jsonl")).unwrap();
    assert!(!log.to_lowercase().contains("secret"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        (text("method"), text("path"), line["status"].as_u64().unwrap())
    };
    let want = [
        ("GET", "/health", 200),
        ("HEAD", "/v1/models", 200),
        ("GET", "other", 404),
        ("GET", "/v1/models", 401),
        ("other", "/v1/models", 405),
        ("POST", "/v1/completions", 200),
        ("POST", "/v1/chat/completions", 200),
        ("GET", "/v1/conversations/{id}", 200),
        ("POST", "/v1/completions", 400),
    ];
    let want: Vec<_> =
        want.iter().map(|(method, path, status)| (method.to_string(), path.to_string(), *status)).collect();
    let mut found: Vec<_> = lines.iter().map(of).collect();
    let mut sorted = want;
    found.sort();
    sorted.sort();
    assert_eq!(found, sorted);
    assert!(lines.iter().all(|line| line["client_gone"] == false && line["cut"] == false), "{log}");
    assert!(lines.iter().all(|line| line["ms"].as_f64() >= Some(0.0) && line["time"].as_str().unwrap().ends_with('Z')));
    let health = lines.iter().find(|line| line["path"] == "/health").unwrap();
    assert!(health["id"] == id && health["bytes"] == r#"{"status":"ok"}"#.len() && health["prompt_tokens"].is_null());
    let texts = lines.iter().find(|line| line["path"] == "/v1/completions" && line["status"] == 200).unwrap();
    assert_eq!((&texts["prompt_tokens"], &texts["generated_tokens"]), (&16.into(), &6.into()));
    assert_eq!(texts["finish_reasons"], json!(["length", "length"]));
    let chat = lines.iter().find(|line| line["path"] == "/v1/chat/completions").unwrap();
    assert!(chat["generated_tokens"] == 2 && chat["bytes"].as_u64() > Some(100), "{chat}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_ends_no_server() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::with(folder.path(), "tiny.gguf", &["--access-log", "/dev/full"]);
    for _ in 0..3 {
        assert_eq!(served.ask("GET", "/health", "").0, 200);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(["serve", "tiny.gguf", "--port", "0", "--backend", "cpu", "--access-log", "none/access.jsonl"]);
    let refused = command.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--access-log none/access.jsonl"), "{said}");
}
