//! The grammar of calls: arguments are of the schema of their tool.

use super::call::Tool;
use super::prompt::{CALL, CALL_END};
use crate::grammar::{
    Grammar, GrammarCompiler, GrammarError, GrammarSource, GrammarTrigger, NamedGrammar, Rules, Waiting,
};
use serde_json::Value;
use std::fmt::Write;

/// Which tools have to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides; the grammar applies once a call has begun.
    Auto,
    /// At least one.
    Required,
    /// This one, once.
    Named(String),
}

/// The grammar of an answer that calls these tools. `is_parallel`: there may be several calls.
///
/// # Errors
/// The parameters of a tool cannot be honoured, or there is no tool, or none of the chosen name.
pub fn call_grammar(
    compiler: &GrammarCompiler,
    tools: &[Tool],
    choice: &ToolChoice,
    is_parallel: bool,
) -> Result<Grammar, GrammarError> {
    let named: Vec<&Tool> = match choice {
        ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
        ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
    };
    if named.is_empty() {
        return Err(GrammarError::NoChoice);
    }
    let compile = |start: &str| compiler.compile_rules("the parameters of a tool", &rules(start, &named));
    let end = literal(&format!("\n{CALL_END}"));
    let (tag, line) = (literal(CALL), literal("\n"));
    match choice {
        ToolChoice::Named(_) => compile(&format!("BLANK? {tag} {line} call {end}")),
        ToolChoice::Required if !is_parallel => compile(&format!("BLANK? {tag} {line} call {end}")),
        ToolChoice::Required => {
            let first = format!("{tag} {line} call {end}");
            compile(&format!("BLANK? {first} ({line} {first})*"))
        }
        ToolChoice::Auto => {
            let tagged = compile(&format!("{line} call {end}"))?;
            let list = match is_parallel {
                true => "BLANK? \"[\" BLANK? call (\",\" BLANK? call)* BLANK? \"]\" BLANK? \"</tool_calls>\"",
                false => "BLANK? \"[\" BLANK? call BLANK? \"]\" BLANK? \"</tool_calls>\"",
            };
            let marked = "BLANK? (call | FENCE call \"\\n```\")";
            let trigger = |text: &str, grammar| GrammarTrigger { text: text.to_owned(), grammar };
            let triggers = vec![
                trigger(CALL, tagged),
                trigger("<tool_calls>", compile(list)?),
                trigger("**Tool Call:**", compile(marked)?),
            ];
            let waiting = if is_parallel { Waiting::Repeatedly } else { Waiting::AtMostOnce };
            Grammar::after(triggers, waiting).ok_or(GrammarError::NoChoice)
        }
    }
}

/// Rules with a call of any of these tools.
fn rules(start: &str, tools: &[&Tool]) -> Rules {
    let all: Vec<String> = (0..tools.len()).map(|index| format!("call{index}")).collect();
    let mut text =
        format!("start: {start}\ncall: {}\nBLANK: /[ \\n]{{1,2}}/\nFENCE: /```(json)?\\n/\n", all.join(" | "));
    let mut grammars = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let name = Value::from(tool.name.as_str());
        let before = literal(&format!("{{\"name\": {name}, \"arguments\": "));
        let _ = writeln!(text, "call{index}: {before} @tool{index} \"}}\"");
        let source = GrammarSource::JsonSchema(tool.parameters.clone());
        grammars.push(NamedGrammar { name: format!("tool{index}"), source });
    }
    Rules { text, grammars }
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
