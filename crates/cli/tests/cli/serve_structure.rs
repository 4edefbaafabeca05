//! Structured output over HTTP: a model of random weights gives what the request asks for.

use crate::binary::synth;
use crate::served::Served;
use serde_json::{Value, json};
use std::thread::scope;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "zip": { "type": "string", "pattern": "^[0-9]{5}$" },
            "age": { "type": "integer", "minimum": 0, "maximum": 130 },
            "kind": { "enum": ["goose", "swan"] },
        },
        "required": ["zip", "age", "kind"],
        "additionalProperties": false,
    })
}

#[track_caller]
fn is_of_schema(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    let zip = value["zip"].as_str().unwrap();
    value.as_object().unwrap().keys().eq(["zip", "age", "kind"])
        && zip.len() == 5
        && zip.bytes().all(|byte| byte.is_ascii_digit())
        && value["age"].as_u64().unwrap() <= 130
        && (value["kind"] == "goose" || value["kind"] == "swan")
}

#[test]
fn answers_are_what_the_fields_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let named = json!({ "name": "bird", "strict": true, "schema": schema() });
    let formats = [
        json!({ "response_format": { "type": "json_schema", "json_schema": named } }),
        json!({ "response_format": { "type": "json_object", "schema": schema() } }),
        json!({ "guided_json": schema() }),
        json!({ "guided_json": schema().to_string() }),
    ];
    let said = json!([{ "role": "user", "content": "A goose?" }]);
    for (seed, format) in formats.into_iter().enumerate() {
        let mut asked = format;
        (asked["seed"], asked["max_tokens"], asked["top_p"]) = (seed.into(), 400.into(), 1.into());
        let mut chat = asked.clone();
        chat["messages"] = said.clone();
        let whole = served.post("/v1/chat/completions", &chat);
        let (choice, text) = (&whole["choices"][0], whole["choices"][0]["message"]["content"].as_str().unwrap());
        assert!(choice["finish_reason"] == "stop" && is_of_schema(text), "{whole}");
        chat["stream"] = true.into();
        let pieces = served.stream("/v1/chat/completions", &chat);
        let delta = |piece: &Value| piece["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
        assert_eq!(pieces.iter().map(delta).collect::<String>(), text);
        asked["prompt"] = "A goose".into();
        assert!(is_of_schema(served.post("/v1/completions", &asked)["choices"][0]["text"].as_str().unwrap()));
    }
    let text = |more: Value| {
        let mut asked = json!({ "prompt": "A goose", "max_tokens": 60, "top_p": 1, "seed": 3 });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = served.post("/v1/completions", &asked);
        let choice = &answer["choices"][0];
        (choice["text"].as_str().unwrap().to_owned(), choice["finish_reason"].as_str().unwrap().to_owned())
    };
    let stop = |text: &str| (text.to_owned(), "stop".to_owned());
    assert_eq!(text(json!({ "guided_choice": ["honk honk"] })), stop("honk honk"));
    assert_eq!(text(json!({ "guided_regex": "ho{3}nk" })), stop("hooonk"));
    assert_eq!(text(json!({ "guided_grammar": "start: \"a\" b\nb: \"b\"" })), stop("ab"));
    assert_eq!(text(json!({ "grammar": "root ::= \"a\" b{2}\nb ::= [c]" })), stop("acc"));
    // It is cut where max_tokens says so.
    let (cut, reason) = text(json!({ "guided_choice": ["honk honk"], "max_tokens": 3 }));
    assert!(reason == "length" && "honk honk".starts_with(&cut) && cut.len() < 9, "{cut}");
    let (cut, reason) = text(json!({ "response_format": { "type": "json_object" }, "max_tokens": 2 }));
    assert!(reason == "length" && cut.starts_with('{'), "{cut}");
    assert_eq!(text(json!({ "response_format": { "type": "text" }, "grammar": "", "max_tokens": 1 })).1, "length");

    // Responses name the format otherwise, and repeat it.
    let format = json!({ "type": "json_schema", "name": "bird", "schema": schema() });
    let asked = json!({ "input": "A goose?", "text": { "format": format }, "store": false });
    let response = served.post("/v1/responses", &asked);
    assert!(is_of_schema(response["output"][0]["content"][0]["text"].as_str().unwrap()), "{response}");
    assert_eq!((&response["text"]["format"], &response["status"]), (&format, &"completed".into()));
}

#[test]
fn a_grammar_is_kept_in_company() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let ask = |number: usize| {
        let mut asked =
            json!({ "prompt": format!("goose {}", number % 4), "max_tokens": 200, "top_p": 1, "seed": number });
        match number % 3 {
            0 => asked["guided_json"] = schema(),
            1 => asked["guided_regex"] = "[a-z]{5,20}".into(),
            _ => asked["max_tokens"] = 30.into(),
        }
        served.post("/v1/completions", &asked)["choices"][0].clone()
    };
    let alone: Vec<Value> = (0..12).map(ask).collect();
    scope(|scope| {
        let threads: Vec<_> = (0..24).map(|number| scope.spawn(move || (number, ask(number % 12)))).collect();
        for thread in threads {
            let (number, together) = thread.join().unwrap();
            assert_eq!(together, alone[number % 12], "{number}");
        }
    });
}

#[test]
fn what_cannot_be_honoured_is_refused_by_its_field() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let format = |schema: Value| json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
    for (fields, field, why) in [
        (json!({ "response_format": format(json!({ "type": "goose" })) }), "response_format", "goose"),
        (json!({ "response_format": format(json!({ "if": {} })) }), "response_format", "if"),
        (json!({ "response_format": { "type": "json_schema", "json_schema": {} } }), "response_format", "schema"),
        (json!({ "response_format": { "type": "xml" } }), "response_format", "xml"),
        (json!({ "response_format": { "type": "json_object", "goose": 1 } }), "response_format", "goose"),
        (json!({ "guided_json": "{" }), "guided_json", "EOF"),
        (json!({ "guided_regex": "(" }), "guided_regex", "regular expression"),
        (json!({ "guided_choice": [] }), "guided_choice", "at least one"),
        (json!({ "guided_grammar": "start: a" }), "guided_grammar", "the grammar"),
        (json!({ "grammar": "root ::= a" }), "grammar", "line 1"),
        (json!({ "guided_regex": "a", "guided_choice": ["a"] }), "guided_choice", "give one of them"),
    ] {
        let mut asked = json!({ "prompt": "a", "messages": [{ "role": "user", "content": "a" }] });
        asked.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        for (path, other) in [("/v1/completions", "messages"), ("/v1/chat/completions", "prompt")] {
            for is_stream in [false, true] {
                let mut asked = asked.clone();
                asked.as_object_mut().unwrap().shift_remove(other);
                asked["stream"] = is_stream.into();
                let (status, answer) = served.ask("POST", path, &asked.to_string());
                let error: Value = serde_json::from_str(&answer).unwrap();
                let said = error["error"]["message"].as_str().unwrap();
                assert!(status == 400 && error["error"]["param"] == field && said.contains(why), "{asked}: {answer}");
            }
        }
    }
    let asked = json!({ "input": "a", "text": { "format": { "type": "json_schema", "schema": { "type": "x" } } } });
    let (status, answer) = served.ask("POST", "/v1/responses", &asked.to_string());
    let error: Value = serde_json::from_str(&answer).unwrap();
    assert!(status == 400 && error["error"]["param"] == "text.format", "{answer}");
}
