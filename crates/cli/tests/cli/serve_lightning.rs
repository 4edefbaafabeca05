//! `wgoose serve` for clients of rwkv_lightning and rwkv_lightning_cuda: requests as in their documents and as their
//! page sends them.

use crate::adapters::save_lora;
use crate::binary::synth;
use crate::served::{Connection, Served};
use serde_json::{Value, json};

fn text(answer: &Value, index: usize) -> &str {
    answer["choices"][index]["message"]["content"].as_str().unwrap()
}

/// The text of a completion at temperature 0, as this server's own interface gives it.
fn completion(served: &Served, prompt: &str, more: Value) -> String {
    let mut body = more;
    (body["prompt"], body["temperature"]) = (prompt.into(), 0.into());
    served.post("/v1/completions", &body)["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn contents_are_continued_in_one_request() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let contents = ["English: Hello\n\nChinese:", "User: a\n\nAssistant:"];
    let penalties = json!({ "presence_penalty": 0.2, "frequency_penalty": 0.1, "penalty_decay": 0.99 });
    let want: Vec<String> = contents
        .iter()
        .map(|prompt| {
            let mut body = penalties.clone();
            (body["max_tokens"], body["stop_token_ids"], body["stop"]) = (8.into(), json!([0, 99]), "honk".into());
            completion(&served, prompt, body)
        })
        .collect();
    let mut body = json!({
        "contents": contents, "max_tokens": 8, "temperature": 0, "top_k": 5, "top_p": 0.3, "alpha_presence": 0.2,
        "alpha_frequency": 0.1, "alpha_decay": 0.99, "stop_tokens": [0, 99, "honk"], "chunk_size": 1, "noise": 0,
        "stream": false, "password": "any", "metrics": true,
    });
    for path in ["/v1/batch/completions", "/v1/chat/completions", "/openai/v1/chat/completions"] {
        let answer = served.post(path, &body);
        assert_eq!((text(&answer, 0), text(&answer, 1)), (&want[0][..], &want[1][..]), "{path}");
        assert_eq!(answer["choices"][1]["message"]["role"], "assistant");
        assert!(answer["object"] == "chat.completion" && answer["usage"]["completion_tokens"].is_u64(), "{answer}");
    }
    body["stream"] = true.into();
    let mut texts = [String::new(), String::new()];
    for event in served.stream("/v1/batch/completions", &body) {
        let choice = &event["choices"][0];
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        texts[index] += choice["delta"]["content"].as_str().unwrap_or_default();
    }
    assert_eq!(texts[..], want);

    // What their servers take for granted where a client leaves it out.
    let defaults = json!({ "contents": ["goose"], "temperature": 0, "max_tokens": 8, "seed": 1 });
    let mut said = json!({ "presence_penalty": 2, "frequency_penalty": 0.2, "penalty_decay": 0.996, "top_k": 20 });
    (said["max_tokens"], said["seed"]) = (8.into(), 1.into());
    let answer = served.post("/v1/batch/completions", &defaults);
    assert_eq!(text(&answer, 0), completion(&served, "goose", said));
    for (path, body, field) in [
        ("/v1/batch/completions", json!({}), "contents"),
        ("/v1/batch/completions", json!({ "contents": [] }), "contents"),
        ("/v1/batch/completions", json!({ "contents": ["a"], "messages": [{}] }), "contents"),
        ("/v1/batch/completions", json!({ "contents": ["a"], "alpha_presence": "x" }), "alpha_presence"),
        ("/v1/batch/completions", json!({ "contents": ["a"], "alpha_decay": 7 }), "alpha_decay"),
        ("/v1/batch/completions", json!({ "contents": ["a"], "force_reasoning": true }), "force_reasoning"),
        ("/v1/batch/completions", json!({ "contents": ["a"], "adapter_id": "a" }), "adapter_id"),
        ("/v1/chat/completions", json!({ "contents": ["a"], "honk": 1 }), "honk"),
        ("/state/chat/completions", json!({ "contents": ["a"] }), "session_id"),
    ] {
        let (status, answer) = served.ask("POST", path, &body.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!(status == 400 && error["error"]["param"] == field, "{path} {body}: {status} {answer}");
    }
}

#[test]
fn chats_think_as_their_think_type_says() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let stop = || json!({ "max_tokens": 6, "stop": "\n\nUser:" });
    let chat = |more: Value| {
        let mut body = more;
        (body["max_tokens"], body["temperature"]) = (6.into(), 0.into());
        body["messages"] = json!([{ "role": "user", "content": "a" }]);
        served.post("/v1/chat/completions", &body)
    };
    let message = |answer: &Value| {
        let message = &answer["choices"][0]["message"];
        let said = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        said("reasoning_content") + &said("content")
    };
    for (fields, prompt) in [
        (json!({ "think_type": "none" }), "User: a\n\nAssistant:"),
        (json!({ "think_type": "none", "system": "Honk." }), "System: Honk.\n\nUser: a\n\nAssistant:"),
        (json!({ "think_type": "fast" }), "User: a\n\nAssistant: <think>\n</think"),
        (json!({ "enable_think": false }), "User: a\n\nAssistant: <think>\n</think"),
        (json!({ "think": true }), "User: a\n\nAssistant: <think"),
        (json!({ "think_type": "free", "think": false }), "User: a\n\nAssistant: <think"),
        (json!({ "think_type": "enShort" }), "User: a (think a bit)\n\nAssistant: <think"),
        (json!({ "think_type": "en_long" }), "User: a (think a lot)\n\nAssistant: <think"),
        (json!({ "think_type": "preferChinese" }), "User: a\n\nAssistant: <think>嗯"),
    ] {
        let want = completion(&served, prompt, stop());
        let opening = prompt.split_once("Assistant:").unwrap().1.trim_start();
        let found = message(&chat(fields.clone()));
        // The model of random weights closes no tag, so that the thoughts never end.
        let whole = format!("{opening}{want}");
        let want = whole.strip_prefix("<think>").unwrap_or(&whole).trim();
        assert_eq!(found, want, "{fields}");
        let mut count = json!({ "messages": [{ "role": "user", "content": "a" }] });
        count.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let read = served.post("/tokenize", &json!({ "content": prompt }));
        assert_eq!(served.post("/v1/tokens/count", &count)["tokens"], read["count"], "{fields}");
    }
    let body = json!({ "messages": [{ "role": "user", "content": "a" }], "think_type": "honk" });
    let (status, answer) = served.ask("POST", "/v1/chat/completions", &body.to_string());
    assert!(status == 400 && answer.contains("\"param\":\"think_type\""), "{answer}");
    assert_eq!(served.post("/v1/tokens/count", &json!({ "text": "goose" })), json!({ "tokens": 5 }));
    assert_eq!(served.post("/v1/tokens/count", &json!({ "contents": ["goo", "se"] })), json!({ "tokens": 5 }));
    assert_eq!(served.ask("POST", "/v1/tokens/count", "{}").0, 400);
}

#[test]
fn states_are_uploaded_listed_used_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::with(folder.path(), "tiny.gguf", &["--state-dir", "kept"]);
    let begun = served.post("/v1/completions", &json!({ "prompt": "A goose", "max_tokens": 4, "return_state": true }));
    let id = begun["state_id"].as_str().unwrap();
    let mut connection = Connection::to(&served.address);
    connection.send("GET", &format!("/v1/states/{id}"), &[], "");
    let file = connection.raw_answer().2;
    let upload = |name: &str, file: &[u8]| {
        let head = format!(
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let form = [head.as_bytes(), file, b"\r\n--x--\r\n"].concat();
        let mut connection = Connection::to(&served.address);
        connection.send_bytes("POST", "/v1/state/upload", &["Content-Type: multipart/form-data; boundary=x"], &form);
        let (status, _, answer) = connection.answer();
        (status, serde_json::from_str::<Value>(&answer).unwrap())
    };
    let (status, stored) = upload("/home/me/goose-v1.pth", &file);
    assert_eq!((status, &stored["object"], &stored["state_id"]), (200, &"rwkv.state".into(), &"goose-v1.pth".into()));
    assert_eq!(upload("goose-v1.pth", &file).1, stored, "the same file again");
    let (status, refused) = upload("honk.pth", b"honk");
    assert!(status == 400 && refused["error"]["param"] == "file", "{refused}");
    for method in ["GET", "POST"] {
        let listed: Value = serde_json::from_str(&served.ask(method, "/v1/state/list", "").1).unwrap();
        let mut entry = stored.clone();
        entry.as_object_mut().unwrap().remove("object");
        let data = listed["data"].as_array().unwrap();
        assert!(data.len() == 2 && data.contains(&entry), "{listed}");
        assert!(entry["size_bytes"].as_u64() >= Some(file.len() as u64 / 2) && entry["tensor_count"] == 2, "{entry}");
    }

    // As a field, as a header, or both alike; of many texts at once.
    let contents = json!(["User: And then?\n\nAssistant:", "User: a\n\nAssistant:"]);
    let mut body = json!({ "contents": contents, "max_tokens": 6, "temperature": 0, "stop_tokens": [0] });
    let plain = served.post("/v1/batch/completions", &body);
    let ask = |body: &Value, headers: &[&str]| {
        let mut connection = Connection::to(&served.address);
        connection.send("POST", "/v1/batch/completions", headers, &body.to_string());
        let (status, _, answer) = connection.answer();
        (status, serde_json::from_str::<Value>(&answer).unwrap())
    };
    let header = "X-RWKV-State-Id: goose-v1.pth";
    let (_, by_header) = ask(&body, &[header]);
    assert_ne!(text(&by_header, 0), text(&plain, 0));
    body["state_id"] = "goose-v1.pth".into();
    assert_eq!(ask(&body, &[]).1["choices"], by_header["choices"]);
    assert_eq!(ask(&body, &[header]).1["choices"], by_header["choices"]);
    let (status, refused) = ask(&body, &["X-RWKV-State-Id: other.pth"]);
    assert!(status == 400 && refused["error"]["param"] == "state_id", "{refused}");
    body["state_id"] = "".into();
    assert_eq!(ask(&body, &[]).1["choices"], plain["choices"], "their page sends an empty name");

    // A session continues from its state.
    let turn = |session: &str, content: &str, bias: Value| {
        let body = json!({
            "session_id": session, "contents": [content], "max_tokens": 4, "temperature": 0, "stop_tokens": [0],
            "logit_bias": bias,
        });
        text(&served.post("/state/chat/completions", &body), 0).to_owned()
    };
    // The text of a random model is no UTF-8: the first answer has one letter only.
    let first = turn("one", "User: a\n\nAssistant:", json!({ "98": 1e9 }));
    assert_eq!(first, "aaaa");
    let second = turn("one", "\n\nUser: b\n\nAssistant:", json!({}));
    let whole = format!("User: a\n\nAssistant:{first}\n\nUser: b\n\nAssistant:");
    assert_eq!(turn("two", &whole, json!({})), second);

    let delete = |headers: &[&str], query: &str, body: &str| {
        let mut connection = Connection::to(&served.address);
        connection.send("DELETE", &format!("/v1/state/delete{query}"), headers, body);
        let (status, _, answer) = connection.answer();
        (status, serde_json::from_str::<Value>(&answer).unwrap())
    };
    assert_eq!(delete(&[header], "?state_id=other.pth", "").0, 400);
    assert_eq!(delete(&[], "", "{}").0, 400);
    let gone = json!({ "state_id": "goose-v1.pth", "deleted": true });
    assert_eq!(delete(&[], "", r#"{"state_id":"goose-v1.pth"}"#), (200, gone));
    let unknown = json!({ "state_id": "goose-v1.pth", "deleted": false });
    assert_eq!(delete(&[], "?state_id=goose-v1.pth", ""), (404, unknown));
}

#[test]
fn the_status_and_the_adapter_are_told() {
    let folder = tempfile::tempdir().unwrap();
    // The adapter is made for the one, and the other one has a vocabulary.
    ["tiny.st", "tiny.gguf"].iter().for_each(|name| synth(folder.path(), name, ""));
    save_lora(folder.path());
    let served = Served::with(folder.path(), "tiny.gguf", &["--adapter", "lora.st:0.5", "--parallel", "3"]);
    let get = |path: &str| serde_json::from_str::<Value>(&served.ask("GET", path, "").1).unwrap();
    let status = get("/v1/server/status");
    assert_eq!((&status["status"], &status["model"]["id"]), (&"running".into(), &"tiny".into()));
    assert_eq!(status["prefill_queue"]["available_bsz"], 3);
    assert!(status["capabilities"]["think_type"] == true && status["active_requests"] == json!([]), "{status}");
    let adapters = get("/v1/adapters");
    let adapter = &adapters["data"][0];
    assert_eq!((&adapter["id"], &adapter["manifest"]["rank"]), (&"lora".into(), &2.into()));
    assert!(adapter["manifest"]["scale"] == 0.5 && adapter["version"].as_str().unwrap().len() == 64, "{adapters}");
    assert_eq!(adapters["data"].as_array().unwrap().len(), 1);
    let (status, answer) = served.ask("POST", "/v1/adapters", r#"{"adapter_id":"a","path":"b"}"#);
    assert_eq!(status, 405, "{answer}");
    assert_eq!(get("/openai/v1/models"), get("/v1/models"));
}
