//! Texts in requests, as strings or as tokens.

use super::refused::Refused;
use serde::Deserialize;
use wgoose_session::tokenizer::Tokenizer;

/// One or several texts, as strings or as tokens.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, a list of token ids, or a list of either")]
pub(super) enum Input {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

impl Input {
    /// The tokens of each text.
    ///
    /// # Errors
    /// There is no text, or one is empty or too long.
    pub(super) fn tokens(self, field: &str, tokenizer: &Tokenizer, most: usize) -> Result<Vec<Vec<u32>>, Refused> {
        let encode = |text: String| tokenizer.encode(text.as_bytes());
        let all: Vec<Vec<u32>> = match self {
            Input::Text(text) => vec![encode(text)],
            Input::Tokens(tokens) => vec![tokens],
            Input::Texts(texts) => texts.into_iter().map(encode).collect(),
            Input::TokenLists(lists) => lists,
        };
        if all.is_empty() || all.iter().any(Vec::is_empty) {
            return Err(Refused::field(field, "there is an empty text: give at least one character"));
        }
        match all.iter().find(|tokens| tokens.len() > most) {
            Some(tokens) => {
                Err(Refused::field(field, format_args!("{} tokens are more than the {most} allowed", tokens.len())))
            }
            None => Ok(all),
        }
    }
}

/// A text, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum Strings {
    One(String),
    Several(Vec<String>),
}

impl Strings {
    pub(super) fn list(self) -> Vec<String> {
        match self {
            Strings::One(text) => vec![text],
            Strings::Several(texts) => texts,
        }
    }
}
