//! Grammars: what they allow, with the World vocabulary and without a model.

use proptest::prelude::*;
use serde_json::{Value, json};
use wgoose_session::grammar::{
    Grammar, GrammarCompiler, GrammarError, GrammarSource, GrammarTrigger, Matcher, Waiting,
};
use wgoose_session::tokenizer::{END_OF_TEXT, Tokenizer};

/// The World's rows, of which 6 have no text.
const ROWS: usize = 65_536;

fn compiler() -> &'static GrammarCompiler {
    static COMPILER: std::sync::LazyLock<GrammarCompiler> =
        std::sync::LazyLock::new(|| GrammarCompiler::new(Tokenizer::world().clone(), ROWS));
    &COMPILER
}

fn compile(source: &GrammarSource) -> Grammar {
    compiler().compile(source).unwrap()
}

fn is_allowed(matcher: &mut Matcher, token: u32) -> bool {
    matcher.compute_mask().unwrap();
    matcher.mask().is_none_or(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 1)
}

/// The tokens that may come; `None` where all may.
fn allowed(matcher: &mut Matcher) -> Option<Vec<u32>> {
    matcher.compute_mask().unwrap();
    let mask = matcher.mask()?;
    assert_eq!(mask.len(), ROWS / 32);
    Some((0..ROWS as u32).filter(|token| mask[*token as usize / 32] >> (token % 32) & 1 == 1).collect())
}

/// How far a grammar takes a text, and whether it may end there.
fn taken(grammar: &Grammar, text: &str) -> (usize, bool) {
    let mut matcher = grammar.matcher();
    for (position, token) in Tokenizer::world().encode(text.as_bytes()).into_iter().enumerate() {
        if !is_allowed(&mut matcher, token) {
            return (position, false);
        }
        matcher.push(token).unwrap();
    }
    let may_end = matcher.may_end();
    assert_eq!(is_allowed(&mut matcher, END_OF_TEXT), may_end, "{text}");
    (usize::MAX, may_end)
}

#[track_caller]
fn check(grammar: &Grammar, whole: &[&str], not: &[&str]) {
    for text in whole {
        assert_eq!(taken(grammar, text), (usize::MAX, true), "{text}");
    }
    for text in not {
        assert!(!taken(grammar, text).1, "{text}");
    }
}

#[test]
fn sources_allow_what_they_say() {
    let any = compile(&GrammarSource::JsonObject);
    check(&any, &["{}", r#"{"a": [1, "b\n", null]}"#, "{\n  \"a\": {\"b\": 1.5}\n}"], &["[]", "{\"a\"}", "{} ", "x"]);
    let regex = compile(&GrammarSource::Regex("[a-z]+(/[0-9]{2})?".to_owned()));
    check(&regex, &["goose", "goose/12"], &["Goose", "goose/1", "goose/123"]);
    let choice = compile(&GrammarSource::Choice(vec!["goose".to_owned(), "gänse \"x\"".to_owned()]));
    check(&choice, &["goose", "gänse \"x\""], &["geese", "goo", "goosee"]);
    let lark = compile(&GrammarSource::Grammar("start: \"a\" b+\nb: \"b\" | \"c\" \"d\"".to_owned()));
    check(&lark, &["ab", "abcd"], &["a", "abc"]);
    let gbnf = compile(&GrammarSource::Grammar("root ::= [a-z]* \"z\" tail?\ntail ::= \" \" [^\\n]{2}".to_owned()));
    check(&gbnf, &["z", "zzz", "abz", "abz öy"], &["ab", "z y"]);
}

#[test]
fn properties_come_in_the_order_of_the_schema() {
    let text = r##"{"type": "object", "required": ["zip", "age", "name"], "additionalProperties": false,
        "properties": {"zip": {"$ref": "#/$defs/zip"}, "age": {"type": "integer", "minimum": 1, "maximum": 130},
                       "name": {"type": "string", "maxLength": 5}},
        "$defs": {"zip": {"type": "string", "pattern": "^[0-9]{3}$"}}}"##;
    let grammar = compile(&GrammarSource::JsonSchema(serde_json::from_str(text).unwrap()));
    let good = [r#"{"zip": "123", "age": 130, "name": "Grete"}"#, r#"{"zip":"123","age":1,"name":""}"#];
    let bad = [
        r#"{"age": 1, "zip": "123", "name": ""}"#,
        r#"{"zip": "12", "age": 1, "name": ""}"#,
        r#"{"zip": "123", "age": 131, "name": ""}"#,
        r#"{"zip": "123", "age": 1, "name": "Gretel"}"#,
        r#"{"zip": "123", "age": 1}"#,
        r#"{"zip": "123", "age": 1, "name": "", "more": 1}"#,
    ];
    check(&grammar, &good, &bad);
}

#[test]
fn properties_that_a_schema_does_not_name_are_left_out() {
    let named = json!({ "type": "object", "properties": { "a": { "type": "null" } } });
    let mut open = named.clone();
    open["additionalProperties"] = json!({ "type": "null" });
    let more = r#"{"a": null, "b": null}"#;
    check(&compile(&GrammarSource::JsonSchema(named)), &[r#"{"a": null}"#, "{}"], &[more]);
    check(&compile(&GrammarSource::JsonSchema(open)), &[more, "{}"], &[]);
}

#[test]
fn an_answer_may_begin_with_blanks_but_json_has_few() {
    let answer = compiler().compile_answer(&GrammarSource::JsonObject).unwrap();
    check(&answer, &["{}", " {}", "\n\n{}", "\n {}"], &["   {}", "{} ", "a{}"]);
    let blanks = |count: usize| format!("{{{}\"a\": 1}}", " ".repeat(count));
    let any = compile(&GrammarSource::JsonObject);
    check(&any, &[&blanks(40)], &[&blanks(41), "{\n\n\"a\": 1}"]);
}

#[test]
fn tokens_without_text_never_come() {
    let anything = compile(&GrammarSource::Regex("(?s:.*)".to_owned()));
    let mut matcher = anything.matcher();
    let tokens = allowed(&mut matcher).unwrap();
    assert!(tokens.contains(&END_OF_TEXT) && tokens.len() > 60_000);
    let world = Tokenizer::world();
    assert!(tokens.iter().all(|token| world.token(*token).is_some()));
    // Nor do bytes that begin no character.
    assert!(!tokens.iter().any(|token| world.token(*token).is_some_and(|bytes| bytes.starts_with(b"\xff"))));
}

#[test]
fn a_finished_text_only_ends() {
    let choice = compile(&GrammarSource::Choice(vec!["goose".to_owned()]));
    let mut matcher = choice.matcher();
    for token in Tokenizer::world().encode(b"goose") {
        assert_eq!(allowed(&mut matcher).unwrap(), [token], "forced, as the tokenizer has it");
        assert!(!matcher.must_end() && !matcher.may_end());
        matcher.push(token).unwrap();
    }
    assert!(matcher.must_end() && matcher.may_end());
    assert_eq!(allowed(&mut matcher).unwrap(), [END_OF_TEXT]);
    matcher.push(END_OF_TEXT).unwrap();
    assert_eq!(matcher.push(1).unwrap_err(), GrammarError::Token(1));
    assert_eq!(matcher.compute_mask().unwrap_err(), GrammarError::Token(1));
}

#[test]
fn a_grammar_waits_for_its_trigger() {
    let object = compiler().compile_answer(&GrammarSource::JsonObject).unwrap();
    let trigger = GrammarTrigger { text: "</think>".to_owned(), grammar: object };
    let grammar = Grammar::after(vec![trigger.clone()], Waiting::Once).unwrap();
    check(&grammar, &["a goose </thi</think>\n\n{\"a\": 1}"], &["a goose", "</think>", "</think>a", "</think>{}a"]);
    // Before the trigger nothing is excluded but the end, and a token that completes it with something wrong.
    let mut matcher = grammar.matcher();
    assert_eq!(allowed(&mut matcher).unwrap().len(), 65_529);
    Tokenizer::world().encode(b"so </think").into_iter().for_each(|token| matcher.push(token).unwrap());
    let tokens = allowed(&mut matcher).unwrap();
    let world = Tokenizer::world();
    let completing: Vec<&[u8]> =
        tokens.iter().filter_map(|t| world.token(*t)).filter(|t| t.starts_with(b">")).collect();
    assert_eq!(completing, [&b">"[..], b">{"], "not '>(' and others");
    let free = Grammar::after(vec![trigger], Waiting::AtMostOnce).unwrap();
    assert_eq!(allowed(&mut free.matcher()), None);
    check(&free, &["a goose", "", "</think>{}"], &["</think>", "</think>{} a"]);
}

#[test]
fn a_repeated_grammar_waits_again() {
    let call = compile(&GrammarSource::Regex("[a-z]+</call>".to_owned()));
    let other = compile(&GrammarSource::Choice(vec!["!".to_owned()]));
    let triggers = vec![
        GrammarTrigger { text: "<call>".to_owned(), grammar: call },
        GrammarTrigger { text: "<cal".to_owned() + "m>", grammar: other },
    ];
    let grammar = Grammar::after(triggers, Waiting::Repeatedly).unwrap();
    let good = ["", "so <b> <call>a</call>", "<call>a</call> <calm>!"];
    check(&grammar, &good, &["<call>", "<call>A", "a<call>a</call> <call>", "<calm>?"]);
    // A token that ends a call has nothing after it.
    let mut matcher = grammar.matcher();
    for (text, is_waiting) in
        [("<call>a", false), ("</call>", true), (", and <calm>", false), ("!", true), (" so", true)]
    {
        for token in Tokenizer::world().encode(text.as_bytes()) {
            assert!(is_allowed(&mut matcher, token), "{text}");
            matcher.push(token).unwrap();
        }
        assert_eq!((matcher.may_end(), allowed(&mut matcher).is_none()), (is_waiting, is_waiting), "{text}");
    }
}

#[test]
fn a_compiled_grammar_is_kept() {
    let source = GrammarSource::JsonSchema(json!({ "type": "object", "title": "kept" }));
    assert_eq!(compile(&source), compile(&source));
    assert_ne!(compile(&source), compiler().compile_answer(&source).unwrap());
}

#[test]
fn refusals_say_why() {
    let why = |source: GrammarSource| compiler().compile(&source).expect_err(&format!("{source:?}")).to_string();
    let schema = |schema: Value| why(GrammarSource::JsonSchema(schema));
    assert!(schema(json!({ "type": "gans" })).contains("gans"));
    assert!(schema(json!({ "if": {}, "then": false })).contains("if"));
    assert!(schema(json!({ "$ref": "#/$defs/none" })).contains("none"));
    assert!(schema(json!({ "$ref": "http://127.0.0.1/x" })).contains("$ref"));
    assert!(schema(json!([])).contains("a schema is an object"));
    assert!(schema(json!({ "x-guidance": {} })).contains("x-guidance"));
    assert!(why(GrammarSource::Regex("(a".to_owned())).contains("the regular expression cannot be honoured"));
    assert_eq!(why(GrammarSource::Choice(vec![])), GrammarError::NoChoice.to_string());
    assert!(why(GrammarSource::Grammar("root: \"a\"".to_owned())).contains("start"));
    assert!(why(GrammarSource::Grammar("root ::= a".to_owned())).contains("line 1"));
    for deep in
        [json!({ "anyOf": [] }), json!({ "type": "string", "pattern": "[" }), json!({ "enum": ["ü".repeat(90)] })]
    {
        let _ = compiler().compile(&GrammarSource::JsonSchema(deep));
    }
}

/// Schemas of a subset that [`validates`] knows.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": "null" })),
        (-50i64..50, 0i64..200)
            .prop_map(|(least, more)| { json!({ "type": "integer", "minimum": least, "maximum": least + more }) }),
        (0usize..4).prop_map(|most| json!({ "type": "string", "maxLength": most })),
        prop::collection::vec("[a-zäß\"\\\\]{1,6}", 1..4).prop_map(|texts| json!({ "enum": texts })),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0usize..3)
                .prop_map(|(items, most)| { json!({ "type": "array", "items": items, "maxItems": most }) }),
            prop::collection::vec(("[a-z]{1,4}", inner, any::<bool>()), 0..4).prop_map(|properties| {
                let required: std::collections::BTreeSet<&str> =
                    properties.iter().filter(|(_, _, is_needed)| *is_needed).map(|(name, ..)| name.as_str()).collect();
                let all: serde_json::Map<String, Value> =
                    properties.iter().map(|(name, schema, _)| (name.clone(), schema.clone())).collect();
                json!({ "type": "object", "properties": all, "required": required, "additionalProperties": false })
            }),
        ]
    })
}

/// Whether a value is of a schema; the definition, for what [`schemas`] makes.
fn validates(schema: &Value, value: &Value) -> bool {
    let number = |name: &str| schema[name].as_i64().unwrap_or_default();
    if let Some(choices) = schema["enum"].as_array() {
        return choices.contains(value);
    }
    match (schema["type"].as_str().unwrap_or_default(), value) {
        ("boolean", Value::Bool(_)) | ("null", Value::Null) => true,
        // -0 is an integer, too.
        ("integer", Value::Number(n)) => n
            .as_f64()
            .is_some_and(|n| n.fract() == 0.0 && (number("minimum") as f64..=number("maximum") as f64).contains(&n)),
        ("string", Value::String(text)) => text.chars().count() as i64 <= number("maxLength"),
        ("array", Value::Array(items)) => {
            items.len() as i64 <= number("maxItems") && items.iter().all(|item| validates(&schema["items"], item))
        }
        ("object", Value::Object(fields)) => {
            let order: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
            let places: Vec<Option<usize>> = fields.keys().map(|name| order.iter().position(|n| *n == name)).collect();
            let required = schema["required"].as_array().unwrap();
            places.iter().all(Option::is_some)
                && places.is_sorted()
                && required.iter().all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, field)| validates(&schema["properties"][name], field))
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any of the allowed tokens, however unlikely.
    #[test]
    fn every_text_under_a_schema_is_of_it(schema in schemas(), seed in any::<u64>()) {
        let mut matcher = compile(&GrammarSource::JsonSchema(schema.clone())).matcher();
        let (mut random, mut bytes) = (fastrand::Rng::with_seed(seed), Vec::new());
        loop {
            let tokens = allowed(&mut matcher).unwrap();
            let token = tokens[random.usize(..tokens.len())];
            matcher.push(token).unwrap();
            if token == END_OF_TEXT {
                break;
            }
            bytes.extend_from_slice(Tokenizer::world().token(token).unwrap());
            prop_assert!(bytes.len() < 20_000, "{}", String::from_utf8_lossy(&bytes));
        }
        let text = String::from_utf8(bytes).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert!(validates(&schema, &value), "{schema}\n{text}");
    }
}
