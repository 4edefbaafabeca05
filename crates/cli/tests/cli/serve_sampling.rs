//! Sampling fields of the server: log-probabilities, min-p, the repetition penalty.

use crate::binary::{printed, synth};
use crate::served::Served;
use serde_json::{Value, json};

/// `[token, logprob]` of an entry of a chat.
fn of_chat(entry: &Value) -> (String, f64) {
    (entry["token"].as_str().unwrap().to_owned(), entry["logprob"].as_f64().unwrap())
}

#[test]
fn logprobs_come_whole_and_streamed() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");

    let asked = json!({ "prompt": "goose", "max_tokens": 8, "temperature": 0, "logprobs": 3 });
    let whole = served.post("/v1/completions", &asked);
    let listed = &whole["choices"][0]["logprobs"];
    let tokens: Vec<&str> = listed["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(tokens.len(), 8);
    assert_eq!(tokens.concat(), whole["choices"][0]["text"].as_str().unwrap());
    let mut offset = 0;
    for (i, token) in tokens.iter().enumerate() {
        let likeliest = listed["top_logprobs"][i].as_object().unwrap();
        // Greedy text is of the likeliest tokens; two tokens may have one text.
        let best = likeliest.values().filter_map(Value::as_f64).fold(f64::NEG_INFINITY, f64::max);
        assert!(likeliest.len() <= 3 && listed["token_logprobs"][i].as_f64().unwrap() == best && best < 0.0);
        assert_eq!(listed["text_offset"][i], offset);
        offset += token.chars().count();
    }
    let mut more = asked;
    more["stream"] = true.into();
    let pieces = served.stream("/v1/completions", &more);
    let of = |name: &str| -> Vec<Value> {
        let pieces = pieces.iter().filter_map(|piece| piece["choices"][0]["logprobs"][name].as_array());
        pieces.flatten().cloned().collect()
    };
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(Value::from(of(name)), listed[name], "{name}");
    }

    let said = json!([{ "role": "user", "content": "a" }]);
    let chat = json!({ "messages": said, "max_tokens": 6, "temperature": 0, "logprobs": true, "top_logprobs": 2 });
    let whole = served.post("/v1/chat/completions", &chat);
    let content = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 6);
    for entry in content {
        let likeliest: Vec<_> = entry["top_logprobs"].as_array().unwrap().iter().map(of_chat).collect();
        assert!(likeliest.len() == 2 && likeliest[0] == of_chat(entry) && likeliest[1].1 <= likeliest[0].1);
        let bytes: Vec<u8> = entry["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap() as u8).collect();
        assert_eq!(String::from_utf8_lossy(&bytes), of_chat(entry).0);
    }
    let mut more = chat.clone();
    more["stream"] = true.into();
    let pieces = served.stream("/v1/chat/completions", &more);
    let streamed = pieces.iter().filter_map(|piece| piece["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(streamed.flatten().collect::<Vec<_>>(), content.iter().collect::<Vec<_>>());
    let mut alone = chat;
    alone.as_object_mut().unwrap().remove("top_logprobs");
    let whole = served.post("/v1/chat/completions", &alone);
    assert_eq!(whole["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json!([]));

    for (body, field, why) in [
        (json!({ "prompt": "a", "logprobs": 21 }), "logprobs", "more than the 20"),
        (json!({ "prompt": "a", "logprobs": "many" }), "logprobs", "neither a number"),
        (json!({ "prompt": "a", "top_logprobs": 3 }), "top_logprobs", "is missing"),
        (json!({ "prompt": "a", "logprobs": 3, "echo": true }), "logprobs", "not computed"),
        (json!({ "prompt": "a", "min_p": 2 }), "min_p", "between 0 and 1"),
        (json!({ "prompt": "a", "repetition_penalty": 0 }), "repetition_penalty", "0.01"),
    ] {
        let (status, answer) = served.ask("POST", "/v1/completions", &body.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        assert!(status == 400 && error["error"]["param"] == field && answer.contains(why), "{body}: {answer}");
    }
}

#[test]
fn min_p_and_repetition_penalty_are_those_of_the_verb() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let text = |more: Value| {
        let mut asked = json!({ "prompt": "goose goose", "max_tokens": 12, "temperature": 0, "seed": 4 });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        served.post("/v1/completions", &asked)["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let greedy = text(json!({}));
    // Whatever is drawn, only the likeliest token is near the likeliest.
    assert_eq!(text(json!({ "temperature": 3, "min_p": 1, "top_p": 1 })), greedy);
    let repelled = text(json!({ "repetition_penalty": 90 }));
    assert_ne!(repelled, greedy);
    let flags = "generate tiny.gguf --backend cpu -n 12 -t 0 --repetition-penalty 90 -p";
    let want = printed(folder.path(), flags.split(' ').chain(["goose goose"]));
    assert_eq!(want.strip_suffix('\n').unwrap(), repelled);
}
