//! Flags that say what a text has to be.

use crate::failure::{Failure, WrongUsage};
use std::path::{Path, PathBuf};
use wgoose_session::Session;
use wgoose_session::grammar::{Grammar, GrammarSource};

/// What a text has to be.
#[derive(clap::Args)]
#[command(next_help_heading = "Structured output")]
pub(crate) struct StructureFlags {
    /// Generate JSON of the schema in this file; properties come in its order.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["regex", "choice", "grammar"])]
    json_schema: Option<PathBuf>,
    /// Generate a text that this regular expression matches as a whole.
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true, conflicts_with_all = ["choice", "grammar"])]
    regex: Option<String>,
    /// Generate one of these texts. Repeatable.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "grammar")]
    choice: Vec<String>,
    /// Generate a text of the grammar in this file, in Lark's notation or llama.cpp's (GBNF).
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
}

impl StructureFlags {
    /// The grammar, if a flag names one.
    ///
    /// # Errors
    /// A file cannot be read, or the grammar cannot be honoured.
    pub(crate) fn grammar(&self, session: &Session) -> Result<Option<Grammar>, Failure> {
        let read = |flag: &str, path: &Path| {
            std::fs::read_to_string(path).map_err(|why| format!("{flag}: {}: {why}", path.display()))
        };
        let (flag, source) = match self {
            StructureFlags { json_schema: Some(path), .. } => {
                let text = read("--json-schema", path)?;
                let schema = serde_json::from_str(&text);
                let schema = schema.map_err(|why| WrongUsage(format!("--json-schema: {}: {why}", path.display())))?;
                ("--json-schema", GrammarSource::JsonSchema(schema))
            }
            StructureFlags { regex: Some(regex), .. } => ("--regex", GrammarSource::Regex(regex.clone())),
            StructureFlags { grammar: Some(path), .. } => {
                ("--grammar", GrammarSource::Grammar(read("--grammar", path)?))
            }
            StructureFlags { choice, .. } if !choice.is_empty() => ("--choice", GrammarSource::Choice(choice.clone())),
            _ => return Ok(None),
        };
        let compiled = session.grammars()?.compile(&source);
        Ok(Some(compiled.map_err(|why| WrongUsage(format!("{flag}: {why}")))?))
    }
}
