//! `wgoose serve --state-dir`: states, conversations and responses that survive a killed server.

use crate::binary::synth;
use crate::served::{Connection, Served};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// The answer to one message, with more fields.
fn turn(served: &Served, more: Value, content: &str) -> Value {
    let mut body = more;
    body["messages"] = json!([{ "role": "user", "content": content }]);
    (body["max_tokens"], body["temperature"]) = (6.into(), 0.into());
    served.post("/v1/chat/completions", &body)
}

#[test]
fn states_and_conversations_survive_a_killed_server() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--state-dir", "kept"];
    let mut served = Served::with(folder.path(), "tiny.gguf", &options);
    let text = |answer: &Value| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();

    // Three conversations, and the second answer of the first one from a returned state.
    let names = ["a", "b", "c"];
    let first: Vec<Value> = names.iter().map(|name| turn(&served, json!({ "session_id": name }), name)).collect();
    let forked = turn(&served, json!({ "return_state": true }), "a");
    assert_eq!(text(&forked), text(&first[0]));
    let state = forked["state_id"].as_str().unwrap().to_owned();
    let second = text(&turn(&served, json!({ "state_id": state }), "And then?"));

    // The server is killed in the middle of an answer: the finished turns are there.
    let mut open = Connection::to(&served.address);
    let body = json!({ "session_id": "a", "messages": [{ "role": "user", "content": "b" }], "stream": true });
    open.send("POST", "/v1/chat/completions", &[], &body.to_string());
    open.bytes(200);
    let busy = json!({ "session_id": "a", "messages": [{ "role": "user", "content": "b" }] });
    assert_eq!(served.ask("POST", "/v1/chat/completions", &busy.to_string()).0, 409);
    served.child.kill().unwrap();
    drop(served);
    served = Served::with(folder.path(), "tiny.gguf", &options);
    for (name, answer) in names.iter().zip(&first) {
        let kept: Value = serde_json::from_str(&served.ask("GET", &format!("/v1/conversations/{name}"), "").1).unwrap();
        assert_eq!(
            kept["messages"],
            json!([
                { "role": "user", "content": name },
                { "role": "assistant", "content": text(answer) },
            ])
        );
    }
    assert_eq!(text(&turn(&served, json!({ "session_id": "a" }), "And then?")), second);
    assert_eq!(text(&turn(&served, json!({ "state_id": state }), "And then?")), second);

    // The state after a chat is made of its messages. Texts of a random model are no UTF-8: this answer has one letter.
    let said = |role: &str, content: &str| json!({ "role": role, "content": content });
    let begun = turn(&served, json!({ "session_id": "letters", "logit_bias": { "98": 1e9 } }), "Say a.");
    assert_eq!(text(&begun), "aaaaaa");
    let made = json!({ "messages": [said("user", "Say a."), said("assistant", "aaaaaa")] });
    let made = served.post("/v1/states", &made)["id"].clone();
    let of_messages = text(&turn(&served, json!({ "state_id": made }), "And then?"));
    assert_eq!(of_messages, text(&turn(&served, json!({ "session_id": "letters" }), "And then?")));
    assert_eq!(served.ask("DELETE", &format!("/v1/states/{}", made.as_str().unwrap()), "").0, 200);
    for messages in [json!([]), json!([said("user", "a")]), json!([said("assistant", "a")])] {
        let (status, answer) = served.ask("POST", "/v1/states", &json!({ "messages": messages }).to_string());
        assert!(status == 400 && answer.contains("\"param\":\"messages\""), "{answer}");
    }

    // A state is a file that other tools read, and can be uploaded again.
    let mut connection = Connection::to(&served.address);
    connection.send("GET", &format!("/v1/states/{state}"), &[], "");
    let file = connection.raw_answer().2;
    std::fs::write(folder.path().join("state.st"), &file).unwrap();
    let mut chat = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    chat.args(["chat", "tiny.gguf", "--backend", "cpu", "-n", "6", "-t", "0"]).current_dir(folder.path());
    let mut chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"/load state.st\nAnd then?\n/quit\n").unwrap();
    let said = String::from_utf8(chat.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains(second.trim()), "{said:?} {second:?}");
    connection.send_bytes("POST", "/v1/states", &[], &file);
    let uploaded: Value = serde_json::from_slice(&connection.raw_answer().2).unwrap();
    let copy = served.post("/v1/states", &json!({ "from": uploaded["id"] }));
    assert_eq!(text(&turn(&served, json!({ "state_id": copy["id"] }), "And then?")), second);
    let listed: Value = serde_json::from_str(&served.ask("GET", "/v1/states", "").1).unwrap();
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
    let gone = uploaded["id"].as_str().unwrap();
    assert_eq!(served.ask("DELETE", &format!("/v1/states/{gone}"), "").0, 200);
    assert_eq!(served.ask("GET", &format!("/v1/states/{gone}"), "").0, 404);
    assert_eq!(served.ask("GET", "/v1/states/..%2Fa", "").0, 400);

    // Completions return states, too.
    let mut text_body = json!({ "prompt": "goose", "max_tokens": 4, "temperature": 0, "return_state": true });
    let begun = served.post("/v1/completions", &text_body);
    text_body["max_tokens"] = 8.into();
    let whole = served.post("/v1/completions", &text_body)["choices"][0]["text"].as_str().unwrap().to_owned();
    let beginning = begun["choices"][0]["text"].as_str().unwrap();
    assert!(whole.starts_with(beginning) && begun["state_id"].is_string());
    for (body, field) in [
        (json!({ "prompt": "a", "state_id": "none" }), "state_id"),
        (json!({ "prompt": "a", "session_id": "a/b" }), "session_id"),
        (json!({ "prompt": "a", "session_id": "x", "state_id": "y" }), "session_id"),
        (json!({ "prompt": "a", "return_state": true, "n": 2 }), "return_state"),
        (json!({ "prompt": "a", "return_state": true, "max_tokens": 0 }), "max_tokens"),
    ] {
        let (status, answer) = served.ask("POST", "/v1/completions", &body.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!((400..405).contains(&status) && error["error"]["param"] == field, "{body}: {status} {answer}");
    }
    let without = Served::begin(folder.path(), "tiny.gguf");
    let (status, answer) = without.ask("GET", "/v1/states", "");
    assert!(status == 501 && answer.contains("--state-dir"), "{status} {answer}");
}

#[test]
fn responses_go_on_from_stored_states() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--state-dir", "kept"];
    let mut served = Served::with(folder.path(), "tiny.gguf", &options);
    let ask = |served: &Served, more: Value| {
        let mut body = more;
        (body["temperature"], body["max_output_tokens"]) = (0.into(), 6.into());
        served.post("/v1/responses", &body)
    };
    let text = |response: &Value| response["output"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    let first = ask(&served, json!({ "input": "A goose?", "instructions": "Be brief." }));
    assert_eq!((&first["status"], &first["object"]), (&"incomplete".into(), &"response".into()));
    let chat = json!({ "max_tokens": 6, "temperature": 0, "messages": [
        { "role": "system", "content": "Be brief." }, { "role": "user", "content": "A goose?" },
    ] });
    let same = served.post("/v1/chat/completions", &chat);
    assert_eq!(text(&first), same["choices"][0]["message"]["content"]);
    let more = json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "A swan?" }] }],
        "previous_response_id": first["id"] });
    let second = ask(&served, more.clone());
    assert_eq!(second["previous_response_id"], first["id"]);
    assert!(second["usage"]["input_tokens"].as_u64() < first["usage"]["input_tokens"].as_u64());
    served.child.kill().unwrap();
    drop(served);
    served = Served::with(folder.path(), "tiny.gguf", &options);
    assert_eq!(text(&ask(&served, more.clone())), text(&second));
    let kept: Value =
        serde_json::from_str(&served.ask("GET", &format!("/v1/responses/{}", first["id"].as_str().unwrap()), "").1)
            .unwrap();
    assert_eq!(text(&kept), text(&first));
    // The events of a stream have the same text.
    let mut stream = more;
    (stream["stream"], stream["temperature"], stream["max_output_tokens"]) = (true.into(), 0.into(), 6.into());
    let (status, events) = served.ask("POST", "/v1/responses", &stream.to_string());
    let events: Vec<Value> = events
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.split_once("\ndata: ").unwrap().1).unwrap())
        .collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let deltas: String = of("response.output_text.delta").map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!((status, deltas), (200, text(&second)));
    assert_eq!(text(&of("response.incomplete").next().unwrap()["response"]), text(&second));
    assert!(events.iter().enumerate().all(|(number, event)| event["sequence_number"] == number));
    for (body, field) in [
        (json!({ "input": "a", "previous_response_id": "none" }), "previous_response_id"),
        (json!({ "input": "a", "previous_response_id": first["id"], "instructions": "b" }), "input"),
        (json!({ "input": [{ "type": "function_call_output" }] }), "input"),
        (json!({ "input": "a", "tools": [{}] }), "tools"),
    ] {
        let (status, answer) = served.ask("POST", "/v1/responses", &body.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!((400..405).contains(&status) && error["error"]["param"] == field, "{body}: {status} {answer}");
    }
}
