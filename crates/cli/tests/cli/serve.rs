//! `wgoose serve`, asked over a socket as programs for OpenAI's interface ask.

use crate::binary::{printed, synth, wgoose};
use crate::embedding_heads::embedding_model;
use crate::served::{Connection, Served};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

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
    assert_eq!(
        whole["usage"],
        json!({
            "prompt_tokens": 5,
            "completion_tokens": 8,
            "total_tokens": 13,
            "prompt_tokens_details": { "cached_tokens": 0 },
        })
    );
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
    assert_eq!(whole["choices"][0]["message"], json!({ "role": "assistant", "content": want, "refusal": null }));
    let mut more = chat;
    more["stream"] = true.into();
    let pieces = served.stream("/v1/chat/completions", &more);
    assert_eq!(pieces[0]["choices"][0]["delta"]["role"], "assistant");
    let delta = |piece: &Value| piece["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(pieces.iter().map(delta).collect::<String>(), want);

    // A model that is asked to think, and does not.
    let text =
        json!({ "prompt": "User: a\n\nAssistant: <think", "max_tokens": 6, "temperature": 0, "stop": "\n\nUser:" });
    let want = served.post("/v1/completions", &text)["choices"][0]["text"].as_str().unwrap().to_owned();
    let said = json!([{ "role": "user", "content": "a" }]);
    for asks in [json!({ "reasoning_effort": "low" }), json!({ "chat_template_kwargs": { "enable_thinking": true } })] {
        let mut chat = asks;
        chat["messages"] = said.clone();
        (chat["max_tokens"], chat["temperature"]) = (6.into(), 0.into());
        assert_eq!(
            served.post("/v1/chat/completions", &chat)["choices"][0]["message"]["content"],
            format!("<think{want}")
        );
    }

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
    // The order of documents is that of the cosines of the retrieval head's embeddings.
    let documents = ["a swan", "The goose flies.", "honk"];
    let embedded =
        served.post("/v1/embeddings", &json!({ "input": ["geese?", documents[0], documents[1], documents[2]] }));
    let rows: Vec<Vec<f64>> = embedded["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| serde_json::from_value(row["embedding"].clone()).unwrap())
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let score = |row: &Vec<f64>| dot(&rows[0], row) / (dot(&rows[0], &rows[0]) * dot(row, row)).sqrt();
    let scores: Vec<f64> = rows[1..].iter().map(score).collect();
    let asked =
        json!({ "query": "geese?", "documents": [documents[0], { "text": documents[1] }, documents[2]], "top_n": 2 });
    let ranked = served.post("/v1/rerank", &asked);
    let results = ranked["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    let of = |result: &Value| (result["index"].as_u64().unwrap() as usize, result["relevance_score"].as_f64().unwrap());
    let (best, next) = (of(&results[0]), of(&results[1]));
    assert!(best.1 >= next.1 && (best.1 - scores[best.0]).abs() < 1e-6 && (next.1 - scores[next.0]).abs() < 1e-6);
    assert!(scores.iter().all(|score| *score <= best.1 + 1e-6) && results[0]["document"].is_null(), "{ranked}");
    for (path, body, why) in [
        ("/v1/rerank", json!({ "query": "", "documents": ["a"] }), "query: there is an empty text"),
        ("/v1/rerank", json!({ "query": "a", "documents": [] }), "documents: there is an empty text"),
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
    let image = json!([{ "role": "user", "content": [{ "type": "image_url" }] }]);
    for (path, body, field, why) in [
        ("/v1/completions", json!({ "prompt": "a", "n": 0 }), "n", "is not from 1"),
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" }), "suffix", "cannot be honoured"),
        ("/v1/completions", json!({ "prompt": "a", "guided_goose": {} }), "guided_goose", "no field of that name"),
        ("/v1/completions", json!({ "prompt": "" }), "prompt", "empty"),
        ("/v1/completions", json!({ "prompt": [70000] }), "prompt", "vocabulary"),
        ("/v1/completions", json!({ "prompt": "a", "temperature": -1 }), "temperature", "-1"),
        ("/v1/completions", json!({ "prompt": "a", "top_p": "x" }), "top_p", "invalid type"),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": 100_000_000 }), "max_tokens", "allowed"),
        ("/v1/completions", json!({ "prompt": "a", "logit_bias": { "goose": 1 } }), "logit_bias", "no token"),
        ("/v1/completions", json!({ "prompt": "a", "logit_bias": { "99999": 1 } }), "logit_bias", "token 99999"),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": -2 }), "max_tokens", "no number of tokens"),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": 1.5 }), "max_tokens", "no number of tokens"),
        ("/v1/completions", json!({ "prompt": { "a": 1 } }), "prompt", "expected a text, a list of token ids"),
        ("/v1/completions", json!({ "prompt": "a", "stop": 1 }), "stop", "expected a text or a list"),
        ("/v1/completions", json!({ "prompt": vec!["a"; 300] }), "n", "can be queued"),
        ("/v1/completions", json!({}), "prompt", "missing"),
        (
            "/v1/chat/completions",
            json!({ "messages": [{ "role": "user", "content": null }] }),
            "messages",
            "no content",
        ),
        ("/v1/completions", json!({ "prompt": "a", "tools": [{}] }), "tools", "no field of that name"),
        ("/v1/chat/completions", json!({ "messages": [] }), "messages", "nothing was said"),
        ("/v1/chat/completions", json!({ "messages": image }), "messages", "'image_url' is no text"),
        ("/v1/embeddings", json!({ "input": "" }), "input", "empty"),
        ("/v1/rerank", json!({ "query": "a", "documents": ["b"] }), "model", "needs the retrieval head"),
        ("/v1/embeddings", json!({ "input": vec![1; 20_000].chunks(1).collect::<Vec<_>>() }), "input", "allowed"),
        ("/v1/embeddings", json!({ "input": "a", "dimensions": 8 }), "dimensions", "leave it out"),
        ("/v1/embeddings", json!({ "input": "a", "encoding_format": "hex" }), "encoding_format", "hex"),
        ("/detokenize", json!({ "tokens": [70000] }), "tokens", "no token 70000"),
    ] {
        // A stream is refused before its head.
        let mut asked = vec![body.clone()];
        if path.ends_with("completions") {
            let mut stream = body;
            stream["stream"] = true.into();
            asked.push(stream);
        }
        for body in asked {
            let (status, answer) = served.ask("POST", path, &body.to_string());
            assert_eq!(status, 400, "{body}: {answer}");
            let error: Value = serde_json::from_str(&answer).unwrap();
            let said = error["error"]["message"].as_str().unwrap();
            assert!(said.contains(why) && error["error"]["param"] == field, "{body}: {answer}");
        }
    }
    // What clients send by default.
    let nulls = json!({ "prompt": [1, 2], "max_tokens": null, "max_completion_tokens": 1, "seed": -1, "top_k": -1,
        "stop": [], "logit_bias": {}, "user": "me", "store": false, "n": null, "stream_options": null });
    assert_eq!(served.post("/v1/completions", &nulls)["usage"]["completion_tokens"], 1);
    let floats = json!({ "prompt": [[1, 2], [3]], "max_tokens": 3.0, "logit_bias": { "0": -100 } });
    assert_eq!(served.post("/v1/completions", &floats)["usage"]["completion_tokens"], 6);
    let said = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": null },
        { "role": "user", "content": "b" }]);
    served.post("/v1/chat/completions", &json!({ "messages": said, "max_tokens": 1 }));
    assert_eq!(served.ask("POST", "/v1/completions", "{").0, 400);
    assert_eq!(served.ask("GET", "/v1/completions", "").0, 405);
    assert_eq!(served.ask("GET", "/v2", "").0, 404);
    assert_eq!(served.ask("GET", "/v1/models/goose", "").0, 404);
    assert_eq!(served.ask("GET", "/v1/models/tiny", "").0, 200);
}

/// A request that takes hours.
fn endless(stream: bool) -> String {
    json!({ "prompt": "a", "max_tokens": 10_000_000, "stream": stream, "logit_bias": { "0": -1e9 } }).to_string()
}

#[test]
fn clients_that_hang_up_or_stall_hold_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--parallel", "2", "--max-tokens", "100000000"];
    let served = Served::with(folder.path(), "tiny.gguf", &options);
    // One that never sends its request to the end.
    let mut slow = TcpStream::connect(&served.address).unwrap();
    slow.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{").unwrap();
    // More than there are places for: whoever leaves gives its place up, whether its answer is a stream or whole.
    for stream in [true, false, true, false, true, false] {
        let mut gone = Connection::to(&served.address);
        gone.send("POST", "/v1/completions", &[], &endless(stream));
        if stream {
            gone.bytes(400);
        }
        // The server is asked meanwhile.
        assert_eq!(served.ask("GET", "/health", "").0, 200);
        assert_eq!(served.ask("HEAD", "/v1/models", "").0, 200);
    }
    let one = served.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 }));
    assert_eq!(one["usage"]["total_tokens"], 2);
    // One that does not take its answer, more than sockets hold.
    let mut stalled = Connection::to(&served.address);
    stalled.send("POST", "/v1/embeddings", &[], &json!({ "input": vec!["a"; 8000] }).to_string());
    assert_eq!(stalled.bytes(12), b"HTTP/1.1 200");
    assert_eq!(served.ask("GET", "/health", "").0, 200);
}

#[test]
fn sequences_are_generated_together_and_a_full_queue_is_told() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--parallel", "2", "--queue", "1", "--max-tokens", "100000000"];
    let served = Served::with(folder.path(), "tiny.gguf", &options);
    // Two decode for hours, and a third is queued.
    let mut long: Vec<Connection> = (0..2).map(|_| Connection::to(&served.address)).collect();
    for connection in &mut long {
        connection.send("POST", "/v1/completions", &[], &endless(true));
        connection.bytes(400);
    }
    let mut third = Connection::to(&served.address);
    third.send("POST", "/v1/completions", &[], &json!({ "prompt": "goose", "max_tokens": 3 }).to_string());
    let metrics = loop {
        let metrics = served.ask("GET", "/metrics", "").1;
        if metrics.contains("wgoose_waiting 1\n") {
            break metrics;
        }
    };
    assert!(metrics.contains("wgoose_running 2\n") && metrics.ends_with("# EOF\n"), "{metrics}");
    let mut fourth = Connection::to(&served.address);
    fourth.send("POST", "/v1/completions", &[], &json!({ "prompt": "a" }).to_string());
    let (status, head, answer) = fourth.answer();
    assert!(status == 429 && head.contains("retry-after: 1"), "{status} {head} {answer}");
    drop(long);
    assert!(third.answer().2.contains("\"completion_tokens\":3"));
    fourth.send("POST", "/v1/completions", &[], &json!({ "prompt": "a", "max_tokens": 2 }).to_string());
    assert_eq!(fourth.answer().0, 200, "over the same connection");
}

#[test]
fn answers_are_the_same_alone_and_in_company() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let prompts = ["goose", "The swan swims on the lake, and", "x"];
    let asked =
        |prompt: Value, n: usize| json!({ "prompt": prompt, "max_tokens": 12, "temperature": 0.9, "seed": 5, "n": n });
    let text = |answer: &Value, index: usize| answer["choices"][index]["text"].as_str().unwrap().to_owned();
    let alone: Vec<String> =
        (0..3).map(|i| text(&served.post("/v1/completions", &asked(prompts[i].into(), 1)), 0)).collect();
    // Several prompts and several texts of each in one request, each with a separate seed.
    let together = served.post("/v1/completions", &asked(json!(prompts), 2));
    assert_eq!(together["choices"].as_array().unwrap().len(), 6);
    assert_eq!(text(&together, 0), alone[0]);
    let mut second = asked("goose".into(), 1);
    second["seed"] = 6.into();
    assert_eq!(text(&together, 1), text(&served.post("/v1/completions", &second), 0));
    // Many clients at once.
    let answers: Vec<(usize, String)> = std::thread::scope(|scope| {
        let ask = |i: usize| text(&served.post("/v1/completions", &asked(prompts[i % 3].into(), 1)), 0);
        let threads: Vec<_> = (0..24).map(|i| scope.spawn(move || (i, ask(i)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    answers.iter().for_each(|(i, answer)| assert_eq!(answer, &alone[i % 3], "{i}"));
    // What comes before it is part of an answer where that is asked for.
    let mut echo = asked("goose".into(), 1);
    echo["echo"] = true.into();
    assert_eq!(text(&served.post("/v1/completions", &echo), 0), format!("goose{}", alone[0]));
    // The next turn of a chat starts from the prefix cache.
    let turn =
        |messages: &Value| served.post("/v1/chat/completions", &json!({ "messages": messages, "max_tokens": 8 }));
    let first = json!([{ "role": "user", "content": "A goose. ".repeat(100) }]);
    let answer = turn(&first);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let mut more = first;
    more.as_array_mut().unwrap().push(answer["choices"][0]["message"].clone());
    more.as_array_mut().unwrap().push(json!({ "role": "user", "content": "And a swan?" }));
    let read = turn(&more)["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(read > 600, "{read}");
}

#[test]
fn a_server_is_measured_under_load() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::with(folder.path(), "tiny.gguf", &["--api-key", "secret"]);
    let url = format!("http://{}", served.address);
    let asked = ["bench", "server", &url, "--clients", "1,3", "--requests", "2", "--prompt-tokens", "40", "-n", "5"];
    let output = wgoose(folder.path(), asked.iter().chain(&["--json", "--api-key", "secret"]).copied());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let reports: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (report, clients) in reports.iter().zip([1, 3]) {
        assert_eq!((&report["clients"], &report["completed"]), (&clients.into(), &(2 * clients).into()));
        assert_eq!(report["decode_tokens"], 10 * clients);
        let prompt = report["prompt_tokens"].as_u64().unwrap() / (2 * clients);
        assert!((20..=80).contains(&prompt), "{prompt} tokens a prompt");
        assert!(report["first_ms"]["p50"].as_f64() <= report["first_ms"]["p95"].as_f64());
    }
    let refused = wgoose(folder.path(), asked);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("401"), "{stderr}");
}

#[test]
fn embeddings_come_in_both_encodings() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let ids: Value = serde_json::from_str(&served.ask("POST", "/tokenize", r#"{"content": "a goose"}"#).1).unwrap();
    assert_eq!(ids["count"], ids["tokens"].as_array().unwrap().len());
    let text = served.post("/detokenize", &json!({ "tokens": ids["tokens"] }));
    assert_eq!(text["content"], "a goose");
    let floats = served.post("/v1/embeddings", &json!({ "input": [ids["tokens"], ids["tokens"]], "dimensions": 128 }));
    let encoded = served.post("/v1/embeddings", &json!({ "input": "a goose", "encoding_format": "base64" }));
    let encoded = encoded["data"][0]["embedding"].as_str().unwrap();
    let floats: Vec<f32> = serde_json::from_value(floats["data"][1]["embedding"].clone()).unwrap();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let six = |c: u8| alphabet.iter().position(|a| *a == c).unwrap_or(0) as u32;
    let bytes: Vec<u8> = encoded
        .as_bytes()
        .chunks(4)
        .flat_map(|four| (four.iter().fold(0, |bits, c| bits << 6 | six(*c)) << 8).to_be_bytes()[..3].to_vec())
        .collect();
    let decoded: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(decoded[..floats.len()], floats);
}

#[test]
fn keys_hosts_and_origins_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let options = ["--api-key", "secret", "--cors", "https://a.example"];
    let served = Served::with(folder.path(), "tiny.gguf", &options);
    let ask = |method: &str, path: &str, headers: &[&str]| {
        let mut connection = Connection::to(&served.address);
        connection.send(method, path, headers, "");
        let (status, head, _) = connection.answer();
        (status, head)
    };
    assert_eq!(ask("GET", "/health", &[]).0, 200);
    let (status, head) = ask("GET", "/", &[]);
    assert!(status == 200 && head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert_eq!(ask("GET", "/v1/models", &[]).0, 401);
    assert_eq!(ask("GET", "/v1/models", &["Authorization: Bearer secreT"]).0, 401);
    let key = "Authorization: Bearer secret";
    assert_eq!(ask("GET", "/v1/models", &[key]).0, 200);
    assert_eq!(ask("GET", "/v1/models", &[key, "Host: evil.example"]).0, 403);
    assert_eq!(ask("GET", "/v1/models", &[key, "Origin: https://evil.example"]).0, 403);
    let (status, head) = ask("GET", "/v1/models", &[key, "Origin: https://a.example"]);
    assert!(status == 200 && head.contains("access-control-allow-origin: https://a.example"), "{head}");
    let asks = "Access-Control-Request-Method: POST";
    let (status, head) = ask("OPTIONS", "/v1/chat/completions", &["Origin: https://a.example", asks]);
    assert!(status == 200 && head.contains("access-control-allow-methods"), "{head}");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_end_finishes_what_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let mut served = Served::with(folder.path(), "tiny.gguf", &["--grace", "600"]);
    let mut connection = Connection::to(&served.address);
    let body = json!({ "prompt": "a", "max_tokens": 400, "stream": true, "logit_bias": { "0": -1e9 } }).to_string();
    connection.send("POST", "/v1/completions", &[], &body);
    let mut idle = Connection::to(&served.address);
    idle.send("GET", "/health", &[], "");
    assert_eq!(idle.answer().0, 200);
    let id = served.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(connection.answer().2.ends_with("data: [DONE]\n\n"));
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}
