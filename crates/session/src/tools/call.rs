//! Tools and calls.

use serde_json::Value;

/// A function that a model can call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name: letters, digits, '_', '-' and '.'.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// JSON schema of its arguments, an object.
    pub parameters: Value,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The name of the function, which need not be one of the tools.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

impl ToolCall {
    /// The call that a JSON value means, in any of the forms that models write. `None`: it is no call.
    pub(super) fn of(value: &Value) -> Option<ToolCall> {
        // {"type": "function", "function": {"name": ..., "arguments": ...}}
        if let Some(inner @ Value::Object(_)) = value.get("function") {
            return ToolCall::of(inner);
        }
        let field = |names: &[&str]| names.iter().find_map(|name| value.get(*name));
        let name = field(&["name", "function", "tool", "tool_name"])?.as_str()?.trim();
        let arguments = match field(&["arguments", "parameters", "args", "input"]) {
            None | Some(Value::Null) => "{}".to_owned(),
            // Arguments may be JSON in a string, as in OpenAI's interface.
            Some(Value::String(text)) => {
                serde_json::from_str::<Value>(text).map_or_else(|_| text.clone(), |v| v.to_string())
            }
            Some(other) => other.to_string(),
        };
        Some(ToolCall { name: name.to_owned(), arguments }).filter(|call| !call.name.is_empty())
    }

    /// Whether the value says what it calls and with what: other JSON may have a name too.
    pub(super) fn is_complete(value: &Value) -> bool {
        let inner = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
        ["arguments", "parameters", "args", "input"].iter().any(|name| inner.get(*name).is_some())
    }
}
