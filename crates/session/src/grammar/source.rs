//! Sources of grammars, and what the parser is given for them.

use super::closed::close;
use super::error::{GrammarError, reason};
use super::gbnf;
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

/// Blanks between the parts of JSON: one line break with its indentation, or some spaces. Without a limit a model can
/// write blanks for ever.
const JSON_BLANKS: &str = r"(?:\n[ \t]{0,40}|[ \t]{1,40})";

/// Blanks before an answer: a chat's prompt ends with "Assistant:", thoughts with "</think>".
const LEAD: &str = r"/[ \n]{1,2}/";

/// What a text has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum GrammarSource {
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema; properties come in the order of the schema, and others only where it has
    /// `additionalProperties` or the like.
    JsonSchema(Value),
    /// A text that a regular expression, in the notation of the crate `regex`, matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar in the notation of Lark, as `llguidance` has it, whose first rule is `start`; or one in llama.cpp's
    /// notation (GBNF), whose first rule is `root`.
    Grammar(String),
}

/// A grammar that rules refer to as `@name`.
pub(crate) struct NamedGrammar {
    pub(crate) name: String,
    pub(crate) source: GrammarSource,
}

/// Rules in Lark's notation that refer to other grammars, each of which has its own definitions.
pub(crate) struct Rules {
    pub(crate) text: String,
    pub(crate) grammars: Vec<NamedGrammar>,
}

impl GrammarSource {
    /// The kind, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            GrammarSource::JsonObject | GrammarSource::JsonSchema(_) => "the JSON schema",
            GrammarSource::Regex(_) => "the regular expression",
            GrammarSource::Choice(_) => "the list of choices",
            GrammarSource::Grammar(_) => "the grammar",
        }
    }

    /// What the parser is given; `is_answer` allows blanks before it.
    pub(super) fn parsed(&self, is_answer: bool) -> Result<TopLevelGrammar, GrammarError> {
        match is_answer {
            false => Ok(TopLevelGrammar::from_grammar(self.part("answer")?)),
            true => {
                let answer = NamedGrammar { name: "answer".to_owned(), source: self.clone() };
                Rules { text: format!("start: LEAD? @answer\nLEAD: {LEAD}"), grammars: vec![answer] }.parsed()
            }
        }
    }

    fn part(&self, name: &str) -> Result<GrammarWithLexer, GrammarError> {
        let mut part = match self {
            GrammarSource::JsonObject => schema(json!({ "type": "object" }))?,
            GrammarSource::JsonSchema(given) => schema(given.clone())?,
            GrammarSource::Regex(regex) => GrammarWithLexer::from_regex(regex),
            GrammarSource::Choice(choices) if choices.is_empty() || choices.iter().any(String::is_empty) => {
                return Err(GrammarError::NoChoice);
            }
            GrammarSource::Choice(choices) => {
                let choices: Vec<String> =
                    choices.iter().map(|choice| Value::from(choice.as_str()).to_string()).collect();
                GrammarWithLexer::from_lark(format!("start: {}", choices.join(" | ")))
            }
            GrammarSource::Grammar(text) if gbnf::is_gbnf(text) => GrammarWithLexer::from_lark(gbnf::to_lark(text)?),
            GrammarSource::Grammar(text) => GrammarWithLexer::from_lark(text.clone()),
        };
        part.name = Some(name.to_owned());
        Ok(part)
    }
}

impl Rules {
    pub(super) fn parsed(&self) -> Result<TopLevelGrammar, GrammarError> {
        let mut grammars = vec![GrammarWithLexer::from_lark(self.text.clone())];
        for NamedGrammar { name, source } in &self.grammars {
            grammars.push(source.part(name)?);
        }
        Ok(TopLevelGrammar { grammars, max_tokens: None })
    }
}

/// A schema with our limit of blanks.
fn schema(mut schema: Value) -> Result<GrammarWithLexer, GrammarError> {
    let refused = |why: &str| Err(GrammarError::Refused { kind: "the JSON schema", why: reason(why) });
    close(&mut schema);
    match &mut schema {
        Value::Object(fields) if fields.contains_key("x-guidance") => {
            refused("'x-guidance' is no keyword of JSON Schema: leave it out")
        }
        Value::Object(fields) => {
            fields.insert("x-guidance".to_owned(), json!({ "whitespace_pattern": JSON_BLANKS }));
            Ok(GrammarWithLexer::from_json_schema(schema))
        }
        Value::Bool(true) => schema_of_anything(),
        _ => refused("a schema is an object, or true"),
    }
}

fn schema_of_anything() -> Result<GrammarWithLexer, GrammarError> {
    schema(json!({}))
}
