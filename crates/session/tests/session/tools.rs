//! The grammar of calls, held against what reads them.

use serde_json::{Value, json};
use wgoose_session::grammar::{Grammar, GrammarCompiler, GrammarError};
use wgoose_session::tokenizer::{END_OF_TEXT, Tokenizer};
use wgoose_session::tools::{CallReader, ReadText, Tool, ToolChoice, call_grammar};

fn compiler() -> &'static GrammarCompiler {
    static COMPILER: std::sync::LazyLock<GrammarCompiler> =
        std::sync::LazyLock::new(|| GrammarCompiler::new(Tokenizer::world().clone(), 65_536));
    &COMPILER
}

fn tools() -> Vec<Tool> {
    let place = json!({ "$ref": "#/$defs/place" });
    let place = json!({
        "type": "object",
        "properties": { "place": place },
        "required": ["place"],
        "additionalProperties": false,
        "$defs": { "place": { "enum": ["Jena", "Weimar"] } },
    });
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 9 });
    let add = json!({
        "type": "object",
        "properties": { "a": number, "b": number },
        "required": ["a", "b"],
        "additionalProperties": false,
    });
    let tool = |name: &str, parameters| Tool { name: name.to_owned(), description: None, parameters };
    vec![tool("weather", place), tool("weather_add", add)]
}

fn grammar(choice: &ToolChoice, is_parallel: bool) -> Grammar {
    call_grammar(compiler(), &tools(), choice, is_parallel).unwrap()
}

/// Whether a grammar allows a whole text, token by token.
fn allows(grammar: &Grammar, text: &str) -> bool {
    let mut matcher = grammar.matcher();
    for token in Tokenizer::world().encode(text.as_bytes()) {
        matcher.compute_mask().unwrap();
        if matcher.mask().is_some_and(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 0) {
            return false;
        }
        matcher.push(token).unwrap();
    }
    matcher.may_end()
}

/// A text of allowed tokens, after a beginning.
fn text_of(grammar: &Grammar, beginning: &str, random: &mut fastrand::Rng) -> String {
    let (mut matcher, mut bytes) = (grammar.matcher(), beginning.as_bytes().to_vec());
    Tokenizer::world().encode(&bytes).into_iter().for_each(|token| matcher.push(token).unwrap());
    loop {
        matcher.compute_mask().unwrap();
        let Some(mask) = matcher.mask() else { return String::from_utf8(bytes).unwrap() };
        let tokens: Vec<u32> = (0..65_536).filter(|t| mask[*t as usize / 32] >> (t % 32) & 1 == 1).collect();
        let token = tokens[random.usize(..tokens.len())];
        if token == END_OF_TEXT {
            return String::from_utf8(bytes).unwrap();
        }
        matcher.push(token).unwrap();
        bytes.extend_from_slice(Tokenizer::world().token(token).unwrap());
    }
}

fn read(text: &str) -> ReadText {
    let mut reader = CallReader::new(tools().into_iter().map(|tool| tool.name).collect());
    let mut read = reader.push(text);
    let rest = reader.finish();
    read.text += &rest.text;
    read.calls.extend(rest.calls);
    read
}

/// Whether the arguments of every call are what its tool takes.
#[track_caller]
fn check(text: &str, names: &[&str], counts: std::ops::RangeInclusive<usize>) {
    let ReadText { text: rest, calls } = read(text);
    assert!(counts.contains(&calls.len()) && rest.is_empty(), "{text:?}: {rest:?}");
    for call in calls {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        let is_good = match call.name.as_str() {
            "weather" => arguments["place"] == "Jena" || arguments["place"] == "Weimar",
            _ => arguments["a"].as_u64().is_some_and(|a| a <= 9) && arguments["b"].as_u64().is_some_and(|b| b <= 9),
        };
        assert!(is_good && names.contains(&call.name.as_str()), "{text}");
    }
}

#[test]
fn required_calls_are_read_as_calls() {
    let mut random = fastrand::Rng::with_seed(1);
    let all = ["weather", "weather_add"];
    for _ in 0..20 {
        check(&text_of(&grammar(&ToolChoice::Required, false), "", &mut random), &all, 1..=1);
        check(&text_of(&grammar(&ToolChoice::Required, true), "", &mut random), &all, 1..=usize::MAX);
        let named = ToolChoice::Named("weather_add".to_owned());
        check(&text_of(&grammar(&named, true), "", &mut random), &all[1..], 1..=1);
    }
}

#[test]
fn a_call_that_begins_is_finished() {
    let mut random = fastrand::Rng::with_seed(2);
    let auto = grammar(&ToolChoice::Auto, true);
    for marker in ["<tool_call>", "<tool_calls>", "**Tool Call:**"] {
        for _ in 0..20 {
            check(&text_of(&auto, marker, &mut random), &["weather", "weather_add"], 1..=usize::MAX);
        }
    }
}

#[test]
fn a_model_decides_whether_to_call() {
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Jena\"}}\n</tool_call>";
    let (several, one) = (grammar(&ToolChoice::Auto, true), grammar(&ToolChoice::Auto, false));
    for text in ["", "A goose.", call, &format!("Let me see.\n{call}")] {
        assert!(allows(&several, text) && allows(&one, text), "{text}");
        assert_eq!(allows(&grammar(&ToolChoice::Required, true), text), text == call);
    }
    let twice = format!("{call}\n{call}");
    assert!(allows(&several, &twice) && !allows(&one, &twice) && allows(&several, &format!("{call} so")));
    assert!(!allows(&several, "<tool_call>\n{\"name\": \"swan\", \"arguments\": {}}\n</tool_call>"));
    assert!(!allows(&several, "<tool_call>"));
}

#[test]
fn a_schema_of_arguments_is_refused_with_its_reason() {
    let mut tools = tools();
    tools[1].parameters = json!({ "type": "object", "properties": { "a": { "type": "goose" } } });
    let why = call_grammar(compiler(), &tools, &ToolChoice::Auto, true).unwrap_err();
    assert!(why.to_string().contains("goose"), "{why}");
    let named = ToolChoice::Named("swan".to_owned());
    assert_eq!(call_grammar(compiler(), &tools, &named, true).unwrap_err(), GrammarError::NoChoice);
}
