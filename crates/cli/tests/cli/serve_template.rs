//! Chat templates of model files: `wgoose serve` writes conversations with them.

use crate::binary::{printed, synth, wgoose};
use crate::served::Served;
use serde_json::{Value, json};

/// Bars instead of names, tools in the first line, thoughts on demand.
const TEMPLATE: &str = "{% if tools %}tools: {{ tools | map(attribute='function.name') | join(',') }}\n{% endif %}\
    {% for message in messages %}|{{ message.role }}|{{ message.content }}|end|\n{% endfor %}\
    {% if add_generation_prompt %}|assistant|{% if enable_thinking %}<think>{% endif %}{% endif %}";

/// The answer of a chat at temperature 0.
fn chat(served: &Served, more: Value) -> String {
    let mut body = more;
    (body["max_tokens"], body["temperature"]) = (6.into(), 0.into());
    served.post("/v1/chat/completions", &body)["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// The text behind a prompt.
fn behind(served: &Served, prompt: &str) -> String {
    let body = json!({ "prompt": prompt, "max_tokens": 6, "temperature": 0, "stop": "|end|" });
    served.post("/v1/completions", &body)["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn chats_are_written_by_the_template_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, "plain.gguf", "");
    // In one line: --set takes a line.
    let template = format!("tokenizer.chat_template={}", TEMPLATE.replace('\n', "~"));
    printed(path, ["convert", "plain.gguf", "tiny.gguf", "--set", template.as_str()]);
    let served = Served::with(path, "tiny.gguf", &["--state-dir", "kept"]);
    let user = |content: &str| json!({ "role": "user", "content": content });
    let first = chat(&served, json!({ "messages": [user("one")] }));
    assert_eq!(first, behind(&served, "|user|one|end|~|assistant|").trim_start());
    let tool = json!({ "type": "function", "function": { "name": "honk", "parameters": { "type": "object" } } });
    let asked = json!({ "messages": [user("one")], "tools": [tool], "tool_choice": "auto" });
    assert_eq!(chat(&served, asked), behind(&served, "tools: honk~|user|one|end|~|assistant|").trim_start());

    // The server continues a stored conversation as if it had the whole text.
    let letters =
        |content: &str| json!({ "session_id": "a", "messages": [user(content)], "logit_bias": { "98": 1e9 } });
    assert_eq!(chat(&served, letters("one")), "aaaaaa");
    let second = chat(&served, json!({ "session_id": "a", "messages": [user("two")] }));
    let whole = "|user|one|end|~|assistant|aaaaaa|end|~|user|two|end|~|assistant|";
    assert_eq!(second, behind(&served, whole).trim_start());

    // Thoughts begin where the template lets them.
    let body = json!({ "messages": [user("one")], "max_tokens": 6, "temperature": 0, "reasoning_effort": "low" });
    let message = &served.post("/v1/chat/completions", &body)["choices"][0]["message"];
    let thoughts = behind(&served, "|user|one|end|~|assistant|<think>");
    assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), thoughts.trim_start());
    drop(served);

    // By name it is that of the G1 models, and a file replaces it.
    let served = Served::with(path, "tiny.gguf", &["--chat-template", "rwkv"]);
    assert_eq!(
        chat(&served, json!({ "messages": [user("one")] })),
        behind(&served, "User: one\n\nAssistant:").trim_start()
    );
    drop(served);
    std::fs::write(path.join("t.jinja"), "{% for m in messages %}<{{ m.content }}>{% endfor %}=").unwrap();
    let served = Served::with(path, "plain.gguf", &["--chat-template", "t.jinja"]);
    assert_eq!(chat(&served, json!({ "messages": [user("one")] })), behind(&served, "<one>=").trim_start());
}

#[test]
fn a_template_that_makes_no_chat_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::write(folder.path().join("bad.jinja"), "{% for %}").unwrap();
    for (template, why) in [("bad.jinja", "line 1"), ("none.jinja", "--chat-template none.jinja")] {
        let refused = wgoose(
            folder.path(),
            ["serve", "tiny.gguf", "--port", "0", "--backend", "cpu", "--chat-template", template],
        );
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
}
