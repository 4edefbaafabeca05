//! Grammars, as they come from Python.

use crate::error::InputError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use wgoose_session::grammar::{self, GrammarSource};

/// A grammar of the texts of one model, for `generate` and its relatives: `Model.grammar` compiles it.
#[pyclass(frozen, module = "wgoose")]
pub(crate) struct Grammar(pub(crate) grammar::Grammar);

/// The one source that is given.
pub(crate) fn source(
    json_schema: Option<&Bound<'_, PyAny>>,
    regex: Option<String>,
    choice: Option<Vec<String>>,
    grammar: Option<String>,
) -> PyResult<GrammarSource> {
    let schema = json_schema.map(schema_of).transpose()?;
    let sources = [
        schema.map(GrammarSource::JsonSchema),
        regex.map(GrammarSource::Regex),
        choice.map(GrammarSource::Choice),
        grammar.map(GrammarSource::Grammar),
    ];
    let mut given = sources.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(source), None) => Ok(source),
        _ => Err(InputError::new_err("give one of json_schema, regex, choice and grammar")),
    }
}

/// A schema: a dict or a bool, or its JSON.
fn schema_of(schema: &Bound<'_, PyAny>) -> PyResult<serde_json::Value> {
    let text: String = match schema.cast::<PyString>() {
        Ok(text) => text.extract()?,
        Err(_) => schema.py().import("json")?.call_method1("dumps", (schema,))?.extract()?,
    };
    serde_json::from_str(&text).map_err(|why| InputError::new_err(format!("json_schema: {why}")))
}
