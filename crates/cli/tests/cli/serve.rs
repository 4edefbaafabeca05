//! `wgoose serve`, asked over a socket as programs for OpenAI's interface ask.

use crate::binary::{printed, synth};
use crate::embedding_heads::embedding_model;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, for as long as this lives.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn begin(folder: &Path, model: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
        command.args(["serve", model, "--port", "0", "--backend", "cpu"]).current_dir(folder);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let place = |line: String| Some(line.strip_prefix("listening at http://")?.split_once("/v1")?.0.to_owned());
        let address = said.by_ref().map_while(Result::ok).find_map(place).expect("it listens");
        // What it says of refusals needs a reader.
        std::thread::spawn(move || said.for_each(drop));
        Served { child, address }
    }

    /// Status and body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// The events of a stream, but for the last, which says that it is the last.
    fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        let mut events: Vec<&str> =
            answer.split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap()).collect();
        assert_eq!((status, events.pop()), (200, Some("[DONE]")));
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn openai_clients_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let served = Served::begin(folder, "tiny.gguf");
    assert_eq!(served.ask("GET", "/health", "").0, 200);
    let models: Value = serde_json::from_str(&served.ask("GET", "/v1/models", "").1).unwrap();
    assert_eq!(models["data"][0]["id"], "tiny");

    // Text, whole and piece by piece, is what the verb writes.
    let want = printed(folder, "generate tiny.gguf --backend cpu -p goose -n 8 -t 0".split(' '));
    let want = want.strip_suffix('\n').unwrap();
    let asked = json!({ "model": "any", "prompt": "goose", "max_tokens": 8, "temperature": 0, "user": "me" });
    let whole = served.post("/v1/completions", &asked);
    assert_eq!((&whole["object"], &whole["choices"][0]["text"]), (&"text_completion".into(), &want.into()));
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"], json!({ "prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13 }));
    let ids: Value = serde_json::from_str(&printed(folder, "tokenize goose --model tiny.gguf".split(' '))).unwrap();
    let mut more = asked;
    more["prompt"] = ids;
    more["stream"] = true.into();
    more["stream_options"] = json!({ "include_usage": true });
    let pieces = served.stream("/v1/completions", &more);
    let text = |piece: &Value| piece["choices"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(pieces.iter().map(text).collect::<String>(), want);
    assert_eq!(pieces.last().unwrap()["usage"]["total_tokens"], 13);
    assert_eq!(pieces[pieces.len() - 2]["choices"][0]["finish_reason"], "length");

    // A chat has the text that `wgoose chat` makes of it; its answer is that of the text.
    let said = json!([{ "role": "system", "content": "Honk." }, { "role": "user", "content": [{ "type": "text", "text": "a" }] }]);
    let chat = json!({ "messages": said, "max_completion_tokens": 6, "temperature": 0, "n": 1, "tools": [] });
    let text = json!({ "prompt": "System: Honk.\n\nUser: a\n\nAssistant:", "max_tokens": 6, "temperature": 0, "stop": "\n\nUser:" });
    let want = served.post("/v1/completions", &text)["choices"][0]["text"].as_str().unwrap().trim_start().to_owned();
    let whole = served.post("/v1/chat/completions", &chat);
    assert_eq!(whole["choices"][0]["message"], json!({ "role": "assistant", "content": want }));
    let mut more = chat;
    more["stream"] = true.into();
    let pieces = served.stream("/v1/chat/completions", &more);
    assert_eq!(pieces[0]["choices"][0]["delta"]["role"], "assistant");
    let delta = |piece: &Value| piece["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(pieces.iter().map(delta).collect::<String>(), want);

    let found = served.post("/v1/embeddings", &json!({ "input": ["a goose", "a swan"] }));
    let lines = printed(folder, ["embed", "tiny.gguf", "--backend", "cpu", "a goose", "a swan"]);
    for (line, row) in lines.lines().zip(found["data"].as_array().unwrap()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["embedding"], &line["index"]), (&row["embedding"], &row["index"]));
    }
}

#[test]
fn requests_name_the_head_of_an_embedding_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    embedding_model(folder, "embed.st");
    let served = Served::begin(folder, "embed.st");
    for (head, named) in [
        ("retr", json!({})),
        ("sts", json!({ "head": "sts" })),
        ("sts", json!({ "model": "embed:sts" })),
        ("retr", json!({ "model": "embed:latest" })),
    ] {
        let mut body = named;
        body["input"] = json!("a goose");
        let line = printed(folder, ["embed", "embed.st", "--backend", "cpu", "--head", head, "a goose"]);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(served.post("/v1/embeddings", &body)["data"][0]["embedding"], line["embedding"], "{body}");
    }
    for (path, body, why) in [
        ("/v1/embeddings", json!({ "input": "a", "head": "sim" }), "head: 'sim' is none of"),
        ("/v1/completions", json!({ "prompt": "a" }), "this model has no output head"),
    ] {
        let (status, answer) = served.ask("POST", path, &body.to_string());
        assert!(status == 400 && answer.contains(why), "{body}: {status} {answer}");
    }
}

#[test]
fn an_impossible_request_is_refused_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let message = json!([{ "role": "user", "content": "a" }]);
    let image = json!([{ "role": "user", "content": [{ "type": "image_url" }] }]);
    for (path, body, why) in [
        ("/v1/completions", json!({ "prompt": "a", "n": 2 }), "n: it cannot be honoured"),
        ("/v1/completions", json!({ "prompt": "a", "logprobs": 3 }), "logprobs: "),
        ("/v1/completions", json!({ "prompt": ["a", "b"] }), "one text is answered"),
        ("/v1/completions", json!({ "prompt": "" }), "prompt"),
        ("/v1/completions", json!({ "prompt": "a", "temperature": -1 }), "temperature"),
        ("/v1/completions", json!({ "prompt": "a", "logit_bias": { "goose": 1 } }), "'goose' is no token"),
        ("/v1/completions", json!({}), "prompt"),
        ("/v1/chat/completions", json!({ "messages": message, "tools": [{}] }), "tools: "),
        ("/v1/chat/completions", json!({ "messages": [] }), "nothing was said"),
        ("/v1/chat/completions", json!({ "messages": image }), "'image_url' is no text"),
        ("/v1/embeddings", json!({ "input": "" }), "nothing to embed"),
    ] {
        let (status, answer) = served.ask("POST", path, &body.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        let said = error["error"]["message"].as_str().unwrap();
        assert!(status == 400 && said.contains(why), "{body}: {status} {answer}");
    }
    assert_eq!(served.ask("POST", "/v1/completions", "{").0, 400);
    assert_eq!(served.ask("GET", "/v1/completions", "").0, 405);
    assert_eq!(served.ask("GET", "/v2", "").0, 404);
    // One that is never asked to the end holds up no other.
    let mut slow = TcpStream::connect(&served.address).unwrap();
    slow.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{").unwrap();
    // A reader that leaves ends its answer, which would take hours.
    let body =
        json!({ "prompt": "a", "max_tokens": 100_000_000, "stream": true, "logit_bias": { "0": -1e9 } }).to_string();
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut some = [0; 400];
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    assert_eq!(served.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 }))["usage"]["total_tokens"], 2);
    // One that does not take its answer, more than sockets hold, holds up no other.
    let body = json!({ "input": vec!["a"; 8000] }).to_string();
    let mut stalled = TcpStream::connect(&served.address).unwrap();
    let head = format!("POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    stalled.write_all((head + &body).as_bytes()).unwrap();
    let mut first = [0; 12];
    stalled.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(served.ask("GET", "/health", "").0, 200);
}
