//! The fields of tools: what the model may call, and what it has to.

use super::Served;
use super::fields::Fields;
use super::messages::Message;
use super::refused::Refused;
use super::structure::{Structure, compile};
use serde::Deserialize;
use serde_json::{Value, json};
use wgoose_session::after_thoughts;
use wgoose_session::grammar::Grammar;
use wgoose_session::tools::{CallReader, Tool, ToolChoice, call_grammar, tools_text};

/// The field of the tools.
const FIELD: &str = "tools";

/// Most tools of a request.
const MOST_TOOLS: usize = 128;

/// Longest name of a tool.
const LONGEST_NAME: usize = 64;

/// A tool of a chat: `{"type": "function", "function": {...}}`; of responses the function's fields come beside the type.
#[derive(Deserialize)]
struct SentTool {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Function>,
    #[serde(flatten)]
    flat: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
    /// Arguments are always of the schema.
    #[serde(default, rename = "strict")]
    _strict: Option<bool>,
}

/// `tool_choice`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected none, auto, required, or a function")]
enum SentChoice {
    Word(String),
    Function {
        #[serde(rename = "type")]
        kind: String,
        function: Option<Named>,
        name: Option<String>,
    },
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The tools of a request that may be called, at least one.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    tools: Vec<Tool>,
    choice: ToolChoice,
    is_parallel: bool,
}

/// The fields as a response repeats them.
pub(super) struct EchoedTools {
    pub(super) tools: Value,
    pub(super) choice: Value,
    pub(super) is_parallel: bool,
}

impl Tools {
    /// Takes the fields. `None`: there are no tools, or none may be called.
    ///
    /// # Errors
    /// One makes no sense.
    pub(super) fn take(fields: &mut Fields) -> Result<(Option<Self>, EchoedTools), Refused> {
        let sent: Option<Value> = fields.take(FIELD)?;
        let chosen: Option<Value> = fields.take("tool_choice")?;
        let is_parallel: bool = fields.take("parallel_tool_calls")?.unwrap_or(true);
        let echoed = EchoedTools {
            tools: sent.clone().unwrap_or_else(|| json!([])),
            choice: chosen.clone().unwrap_or_else(|| "auto".into()),
            is_parallel,
        };
        let sent: Vec<SentTool> = typed(FIELD, sent)?.unwrap_or_default();
        if sent.len() > MOST_TOOLS {
            let why = format_args!("{} tools are more than the {MOST_TOOLS} allowed", sent.len());
            return Err(Refused::field(FIELD, why));
        }
        let tools = sent.into_iter().map(SentTool::tool).collect::<Result<Vec<_>, _>>()?;
        let twice = tools.iter().enumerate().find(|(index, tool)| tools[..*index].iter().any(|t| t.name == tool.name));
        if let Some((_, tool)) = twice {
            return Err(Refused::field(FIELD, format_args!("there are two tools named '{}'", tool.name)));
        }
        let Some(choice) = choice(typed("tool_choice", chosen)?, &tools)? else { return Ok((None, echoed)) };
        let tools = Some(Tools { tools, choice, is_parallel }).filter(|tools| !tools.tools.is_empty());
        Ok((tools, echoed))
    }

    /// Tells the model of the tools, in the system message.
    pub(super) fn tell(&self, messages: &mut Vec<Message>) {
        let told = tools_text(&self.tools);
        match messages.first_mut() {
            Some(first) if ["system", "developer"].contains(&first.role.as_str()) => {
                first.text = format!("{}\n{told}", first.text);
            }
            _ => messages.insert(0, Message { role: "system".to_owned(), text: told }),
        }
    }

    /// The tools in the form of OpenAI's interface, for templates that tell of them.
    pub(super) fn as_sent(&self) -> Value {
        let function = |tool: &Tool| {
            let Tool { name, description, parameters } = tool;
            json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
        };
        self.tools.iter().map(function).collect()
    }

    /// Reads the calls of an answer.
    pub(super) fn reader(&self) -> CallReader {
        CallReader::new(self.tools.iter().map(|tool| tool.name.clone()).collect())
    }

    /// Compiles the grammar of the answer.
    ///
    /// # Errors
    /// The parameters of a tool cannot be honoured, or the text has to be something else as well.
    pub(super) async fn compile(
        &self,
        served: &Served,
        structure: Option<&Structure>,
        thinks: bool,
    ) -> Result<Grammar, Refused> {
        if let Some(Structure { field, .. }) = structure {
            let why = "the model may call tools instead: leave it out, or set tool_choice to none";
            return Err(Refused::field(field, why));
        }
        let Tools { tools, choice, is_parallel } = self.clone();
        compile(served, FIELD, move |compiler| {
            let calls = call_grammar(compiler, &tools, &choice, is_parallel)?;
            Ok(if thinks { after_thoughts(calls.clone()).unwrap_or(calls) } else { calls })
        })
        .await
    }
}

impl SentTool {
    fn tool(self) -> Result<Tool, Refused> {
        let SentTool { kind, function, flat } = self;
        if kind != "function" {
            return Err(Refused::field(FIELD, format_args!("a tool of type '{kind}' is not supported")));
        }
        let function = match function {
            Some(function) if flat.is_empty() => function,
            Some(_) => return Err(Refused::field(FIELD, "a tool has fields beside its function")),
            None => serde_json::from_value(Value::Object(flat)).map_err(|why| Refused::field(FIELD, why))?,
        };
        let Function { name, description, parameters, .. } = function;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            let why = format_args!("'{name}' is no name: it has 1 to {LONGEST_NAME} letters, digits, '_', '-' or '.'");
            return Err(Refused::field(FIELD, why));
        }
        let parameters = match parameters {
            None => json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            Some(Value::Object(mut schema)) => {
                schema.entry("type").or_insert_with(|| "object".into());
                Value::Object(schema)
            }
            Some(_) => {
                return Err(Refused::field(FIELD, format_args!("the parameters of '{name}' are no JSON schema")));
            }
        };
        Ok(Tool { name, description, parameters })
    }
}

/// `None`: no tool may be called.
fn choice(sent: Option<SentChoice>, tools: &[Tool]) -> Result<Option<ToolChoice>, Refused> {
    let refused = |why: &str| Err(Refused::field("tool_choice", why));
    match sent {
        None => Ok(Some(ToolChoice::Auto)),
        Some(SentChoice::Word(word)) => match word.as_str() {
            "none" => Ok(None),
            "auto" => Ok(Some(ToolChoice::Auto)),
            "required" if tools.is_empty() => refused("there are no tools"),
            "required" => Ok(Some(ToolChoice::Required)),
            other => refused(&format!("'{other}' is none of none, auto, required")),
        },
        Some(SentChoice::Function { kind, function, name }) => {
            let Some(name) = function.map(|function| function.name).or(name).filter(|_| kind == "function") else {
                return refused("it names no function");
            };
            match tools.iter().any(|tool| tool.name == name) {
                true => Ok(Some(ToolChoice::Named(name))),
                false => refused(&format!("there is no tool '{name}'")),
            }
        }
    }
}

fn typed<T: serde::de::DeserializeOwned>(field: &str, value: Option<Value>) -> Result<Option<T>, Refused> {
    value.map(serde_json::from_value).transpose().map_err(|why| Refused::field(field, why))
}
