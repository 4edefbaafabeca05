//! The texts of a prompt with tools: descriptions, earlier calls, and their results.

use super::call::{Tool, ToolCall};
use serde_json::{Value, json};

/// The tags of a call.
pub(super) const CALL: &str = "<tool_call>";
pub(super) const CALL_END: &str = "</tool_call>";

/// A part of the system message that describes tools.
pub fn tools_text(tools: &[Tool]) -> String {
    let mut text = "You can call the tools below. A call is one JSON object between tags, with no other text between \
                    them:\n"
        .to_owned();
    text += &format!("{CALL}\n{{\"name\": \"NAME\", \"arguments\": {{\"KEY\": \"VALUE\"}}}}\n{CALL_END}\n");
    text += "Call a tool only if you need it. The user's next message has its result. Tools, one a line:";
    for Tool { name, description, parameters } in tools {
        let mut tool = json!({ "name": name });
        if let Some(description) = description {
            tool["description"] = description.as_str().into();
        }
        tool["parameters"] = parameters.clone();
        text += &format!("\n{tool}");
    }
    text
}

/// An answer with calls, as the model would have written it.
pub fn call_text(content: &str, calls: &[ToolCall]) -> String {
    let calls = calls.iter().map(|ToolCall { name, arguments }| {
        let name = Value::from(name.as_str());
        format!("{CALL}\n{{\"name\": {name}, \"arguments\": {}}}\n{CALL_END}", arguments.trim())
    });
    let content = Some(content.trim()).filter(|content| !content.is_empty()).map(str::to_owned);
    content.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

/// A message of the user with the results of calls, in their order.
pub fn results_text<'a>(results: impl IntoIterator<Item = &'a str>) -> String {
    let results = results.into_iter().map(|result| format!("<tool_response>\n{}\n</tool_response>", result.trim()));
    results.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_calls_are_told_as_json() {
        let tool = Tool {
            name: "weather".to_owned(),
            description: Some("The weather of a place".to_owned()),
            parameters: json!({ "type": "object", "properties": { "place": { "type": "string" } } }),
        };
        let text = tools_text(std::slice::from_ref(&tool));
        let line = r#"{"name":"weather","description":"The weather of a place","parameters":{"type":"object","properties":{"place":{"type":"string"}}}}"#;
        assert!(text.ends_with(&format!("\n{line}")), "{text}");
        assert!(!text.contains("\n\n"), "an empty line would end the message");
        let call = ToolCall { name: "weather".to_owned(), arguments: "{\"place\": \"Jena\"}".to_owned() };
        let written =
            "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Jena\"}}\n</tool_call>";
        assert_eq!(call_text("Let me see.\n", &[call]), written);
        assert_eq!(results_text(["4 °C\n"]), "<tool_response>\n4 °C\n</tool_response>");
    }
}
