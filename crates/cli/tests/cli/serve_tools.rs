//! Tools over HTTP: a model of random weights calls what the request says, and reads what came of it.

use crate::binary::synth;
use crate::served::Served;
use serde_json::{Value, json};

fn tools() -> Value {
    let place = json!({
        "type": "object",
        "properties": { "place": { "enum": ["Jena", "Weimar"] } },
        "required": ["place"],
        "additionalProperties": false,
    });
    json!([
        { "type": "function", "function": { "name": "weather", "description": "The weather", "parameters": place } },
        { "type": "function", "function": { "name": "now", "strict": true } },
    ])
}

fn chat(more: &Value) -> Value {
    let mut asked = json!({
        "messages": [{ "role": "system", "content": "Honk." }, { "role": "user", "content": "How is the weather?" }],
        "tools": tools(), "max_tokens": 300, "top_p": 1, "seed": 5,
    });
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    asked
}

#[track_caller]
fn check(call: &Value) {
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert!(call["type"] == "function" && call["id"].as_str().unwrap().starts_with("call_"), "{call}");
    match call["function"]["name"].as_str().unwrap() {
        "weather" => assert!(arguments["place"] == "Jena" || arguments["place"] == "Weimar", "{call}"),
        name => assert_eq!((name, arguments), ("now", json!({}))),
    }
}

#[test]
fn tools_are_called_whole_and_in_streams() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let named = json!({ "type": "function", "function": { "name": "now" } });
    for (choice, is_parallel) in [(json!("required"), true), (json!("required"), false), (named, true)] {
        let mut asked = chat(&json!({ "tool_choice": choice, "parallel_tool_calls": is_parallel }));
        let whole = served.post("/v1/chat/completions", &asked);
        let (choice, message) = (&whole["choices"][0], &whole["choices"][0]["message"]);
        let calls = message["tool_calls"].as_array().unwrap();
        assert_eq!((&choice["finish_reason"], &message["content"]), (&"tool_calls".into(), &Value::Null));
        calls.iter().for_each(check);
        assert!(is_parallel || calls.len() == 1);
        // A stream has the same calls, with other ids.
        asked["stream"] = true.into();
        let pieces = served.stream("/v1/chat/completions", &asked);
        let deltas = pieces.iter().filter_map(|piece| piece["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
        let functions = |call: &Value| call["function"].clone();
        let deltas: Vec<Value> = deltas.cloned().collect();
        assert!(deltas.iter().enumerate().all(|(index, call)| call["index"] == index), "{deltas:?}");
        assert_eq!(deltas.iter().map(functions).collect::<Vec<_>>(), calls.iter().map(functions).collect::<Vec<_>>());
        assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

        // The calls and their results are the beginning of the next answer.
        let mut said = asked["messages"].as_array().unwrap().clone();
        said.push(message.clone());
        for call in calls.iter().rev() {
            said.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "4 °C" }));
        }
        let next = chat(&json!({ "messages": said, "max_tokens": 4 }));
        assert!(served.post("/v1/chat/completions", &next)["usage"]["prompt_tokens"].as_u64().unwrap() > 300);
    }
    // Where nothing is called, the answer is text, and a call that was cut is none.
    let text = served.post("/v1/chat/completions", &chat(&json!({ "tool_choice": "none", "max_tokens": 4 })));
    assert!(
        text["choices"][0]["message"]["content"].is_string() && text["usage"]["prompt_tokens"].as_u64() < Some(100)
    );
    let cut = served.post("/v1/chat/completions", &chat(&json!({ "tool_choice": "required", "max_tokens": 20 })));
    let (choice, message) = (&cut["choices"][0], &cut["choices"][0]["message"]);
    assert!(choice["finish_reason"] == "length" && message.get("tool_calls").is_none(), "{cut}");
    assert!(message["content"].as_str().unwrap().starts_with("<tool_call>"), "{cut}");
}

#[test]
fn the_prompt_has_tools_calls_and_results_in_order() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let call = |id: &str, place: &str| {
        let arguments = json!({ "place": place }).to_string();
        json!({ "id": id, "type": "function", "function": { "name": "weather", "arguments": arguments } })
    };
    let said = json!([
        { "role": "user", "content": "How is it?" },
        { "role": "assistant", "content": null, "tool_calls": [call("a", "Jena"), call("b", "Weimar")] },
        { "role": "tool", "tool_call_id": "b", "content": "5" },
        { "role": "tool", "tool_call_id": "a", "content": [{ "type": "text", "text": "4" }] },
    ]);
    let asked = json!({ "messages": said, "max_tokens": 6, "temperature": 0 });
    let chat = served.post("/v1/chat/completions", &asked);
    let prompt = "User: How is it?\n\nAssistant: <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\":\"Jena\"}}\n\
                  </tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\":\"Weimar\"}}\n</tool_call>\n\n\
                  User: <tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>\n\nAssistant:";
    let text = served.post("/v1/completions", &json!({ "prompt": prompt, "max_tokens": 6, "temperature": 0 }));
    assert_eq!(chat["usage"]["prompt_tokens"], text["usage"]["prompt_tokens"]);
    let content = chat["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(content, text["choices"][0]["text"].as_str().unwrap().trim_start());
}

#[test]
fn responses_have_calls_as_items() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::with(folder.path(), "tiny.gguf", &["--state-dir", "states"]);
    let flat: Value = tools()
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let mut flat = tool["function"].clone();
            flat["type"] = "function".into();
            flat
        })
        .collect();
    let asked = json!({
        "input": "How is the weather?", "tools": flat, "tool_choice": { "type": "function", "name": "weather" },
        "seed": 2, "max_output_tokens": 300,
    });
    let response = served.post("/v1/responses", &asked);
    let call = &response["output"][0];
    assert_eq!(
        (&call["type"], &call["name"], &response["status"]),
        (&"function_call".into(), &"weather".into(), &"completed".into())
    );
    assert!(response["output"].as_array().unwrap().len() == 1 && response["tools"] == flat, "{response}");
    // The result goes to the stored response, or with the whole conversation.
    let output = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "4 °C" });
    let next = json!({ "input": [output], "previous_response_id": response["id"], "max_output_tokens": 3 });
    served.post("/v1/responses", &next);
    let whole = json!({ "input": [{ "role": "user", "content": "How?" }, call, output], "max_output_tokens": 3 });
    served.post("/v1/responses", &whole);
    // A stream has the events of the call.
    let mut stream = asked;
    stream["stream"] = true.into();
    let (status, events) = served.ask("POST", "/v1/responses", &stream.to_string());
    let events: Vec<Value> = events
        .split_terminator("\n\n")
        .map(|event| serde_json::from_str(event.split_once("\ndata: ").unwrap().1).unwrap())
        .collect();
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind}"));
    assert_eq!((status, &of("response.output_item.added")["item"]["arguments"]), (200, &"".into()));
    let arguments = &of("response.function_call_arguments.done")["arguments"];
    assert_eq!((arguments, &of("response.function_call_arguments.delta")["delta"]), (&call["arguments"], arguments));
    assert_eq!(of("response.completed")["response"]["output"][0]["arguments"], call["arguments"]);
}

#[test]
fn wrong_tools_are_refused_by_their_field() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let served = Served::begin(folder.path(), "tiny.gguf");
    let tool = |name: &str, parameters: Value| json!([{ "type": "function", "function": { "name": name, "parameters": parameters } }]);
    let result = json!([{ "role": "user", "content": "a" }, { "role": "tool", "tool_call_id": "x", "content": "b" }]);
    for (fields, field, why) in [
        (json!({ "tools": [{}] }), "tools", "type"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools", "web_search"),
        (json!({ "tools": [{ "type": "function", "function": {} }] }), "tools", "name"),
        (json!({ "tools": tool("a b", json!({})) }), "tools", "'a b' is no name"),
        (json!({ "tools": tool("a", json!([])) }), "tools", "no JSON schema"),
        (json!({ "tools": tool("a", json!({ "properties": { "b": { "type": "goose" } } })) }), "tools", "goose"),
        (json!({ "tools": [tools()[0], tools()[0]] }), "tools", "two tools named"),
        (json!({ "tools": [], "tool_choice": "required" }), "tool_choice", "there are no tools"),
        (json!({ "tools": tools(), "tool_choice": "some" }), "tool_choice", "'some' is none of"),
        (
            json!({ "tools": tools(), "tool_choice": { "type": "function", "function": { "name": "x" } } }),
            "tool_choice",
            "no tool 'x'",
        ),
        (json!({ "tools": tools(), "response_format": { "type": "json_object" } }), "response_format", "tool_choice"),
        (json!({ "messages": result }), "messages", "no call 'x'"),
        (json!({ "functions": tools() }), "functions", "cannot be honoured"),
    ] {
        let mut asked = json!({ "messages": [{ "role": "user", "content": "a" }], "max_tokens": 1 });
        asked.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, answer) = served.ask("POST", "/v1/chat/completions", &asked.to_string());
        let error: Value = serde_json::from_str(&answer).unwrap();
        let said = error["error"]["message"].as_str().unwrap();
        assert!(status == 400 && error["error"]["param"] == field && said.contains(why), "{asked}: {answer}");
    }
}
