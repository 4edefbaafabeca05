//! The fields of structured output: what a text has to be.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use wgoose_session::after_thoughts;
use wgoose_session::grammar::{Grammar, GrammarCompiler, GrammarError, GrammarSource};

/// `response_format`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Format {
    Text {},
    /// With a schema, as in llama.cpp's interface, or any object.
    JsonObject {
        schema: Option<Value>,
    },
    JsonSchema {
        json_schema: NamedSchema,
    },
}

/// A schema, with what OpenAI's clients say beside it: it is always kept strictly.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedSchema {
    schema: Value,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default, rename = "strict")]
    _strict: Option<bool>,
}

/// `text` of responses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextField {
    format: Option<Value>,
    /// How long answers are: the models know nothing of it.
    #[serde(default, rename = "verbosity")]
    _verbosity: Option<String>,
}

/// What a text has to be, and the field that says so.
#[derive(Clone, Debug)]
pub(super) struct Structure {
    pub(super) field: &'static str,
    pub(super) source: GrammarSource,
}

/// Where a text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// After a prompt.
    Prompt,
    /// The answer of a chat, where a blank comes first; or, if it is true, thoughts.
    Answer(bool),
}

impl Structure {
    /// Takes the fields.
    ///
    /// # Errors
    /// One makes no sense, or there are several.
    pub(super) fn take(fields: &mut Fields) -> Result<Option<Self>, Refused> {
        let mut given = Vec::new();
        let mut give = |field, source| given.push(Structure { field, source });
        let schema = match fields.take::<Format>("response_format")? {
            None | Some(Format::Text {}) => None,
            Some(Format::JsonObject { schema }) => {
                Some(schema.map_or(GrammarSource::JsonObject, GrammarSource::JsonSchema))
            }
            Some(Format::JsonSchema { json_schema }) => Some(GrammarSource::JsonSchema(json_schema.schema)),
        };
        schema.into_iter().for_each(|source| give("response_format", source));
        if let Some(schema) = fields.take::<Value>("guided_json")? {
            give("guided_json", GrammarSource::JsonSchema(schema_of(schema)?));
        }
        if let Some(regex) = fields.take("guided_regex")? {
            give("guided_regex", GrammarSource::Regex(regex));
        }
        if let Some(choices) = fields.take("guided_choice")? {
            give("guided_choice", GrammarSource::Choice(choices));
        }
        for field in ["guided_grammar", "grammar"] {
            if let Some(grammar) = fields.take::<String>(field)?.filter(|grammar| !grammar.is_empty()) {
                give(field, GrammarSource::Grammar(grammar));
            }
        }
        match given.len() {
            0 | 1 => Ok(given.pop()),
            _ => {
                let why = format_args!("{} says what the text has to be: give one of them", given[0].field);
                Err(Refused::field(given[1].field, why))
            }
        }
    }

    /// Takes the field `text` of responses; returns its format as the response repeats it, too.
    ///
    /// # Errors
    /// It makes no sense.
    pub(super) fn take_text(fields: &mut Fields) -> Result<(Option<Self>, Value), Refused> {
        const FIELD: &str = "text.format";
        let plain = || json!({ "type": "text" });
        let format = fields.take::<TextField>("text")?.and_then(|text| text.format).unwrap_or_else(plain);
        let mut known = format.clone();
        let kind = known.as_object_mut().and_then(|known| known.shift_remove("type"));
        let source = match kind.as_ref().and_then(Value::as_str) {
            Some("text") => None,
            Some("json_object") => Some(GrammarSource::JsonObject),
            Some("json_schema") => {
                let named: NamedSchema = serde_json::from_value(known).map_err(|why| Refused::field(FIELD, why))?;
                Some(GrammarSource::JsonSchema(named.schema))
            }
            _ => return Err(Refused::field(FIELD, "its type is none of text, json_object, json_schema")),
        };
        Ok((source.map(|source| Structure { field: FIELD, source }), format))
    }

    /// Compiles the grammar.
    ///
    /// # Errors
    /// It cannot be honoured.
    pub(super) async fn compile(self, served: &Served, beginning: Beginning) -> Result<Grammar, Refused> {
        let Structure { field, source } = self;
        compile(served, field, move |compiler| match beginning {
            Beginning::Prompt => compiler.compile(&source),
            Beginning::Answer(thinks) => {
                let answer = compiler.compile_answer(&source)?;
                Ok(if thinks { after_thoughts(answer.clone()).unwrap_or(answer) } else { answer })
            }
        })
        .await
    }
}

/// Compiles a grammar of a field on a thread that may wait.
///
/// # Errors
/// It cannot be honoured.
pub(super) async fn compile(
    served: &Served,
    field: &str,
    work: impl FnOnce(&GrammarCompiler) -> Result<Grammar, GrammarError> + Send + 'static,
) -> Result<Grammar, Refused> {
    let compiler = Arc::clone(&served.grammars);
    match tokio::task::spawn_blocking(move || work(&compiler)).await {
        Ok(compiled) => compiled.map_err(|why| Refused::field(field, why)),
        Err(_) => Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, "a thread for grammars ended")),
    }
}

/// A schema, or its text.
fn schema_of(schema: Value) -> Result<Value, Refused> {
    match schema {
        Value::String(text) => serde_json::from_str(&text).map_err(|why| Refused::field("guided_json", why)),
        schema => Ok(schema),
    }
}
