//! Errors of grammars.

/// Longest reason of the parser that an error quotes, in characters.
const LONGEST_REASON: usize = 300;

/// Why a grammar cannot be compiled, or a text cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The source makes no sense, or the parser does not support it.
    #[error("{kind} cannot be honoured: {why}")]
    Refused {
        /// The kind of the source.
        kind: &'static str,
        /// The reason of the parser.
        why: String,
    },
    /// No choice to choose.
    #[error("a list of choices needs at least one text, and no text may be empty")]
    NoChoice,
    /// A grammar in GBNF.
    #[error("line {line} of the GBNF grammar: {why}")]
    Gbnf {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A grammar of another vocabulary.
    #[error("the grammar is for a model of {theirs} token ids, this one has {ours}: compile it for this model")]
    OtherVocabulary {
        /// Token ids of the model that it was compiled for.
        theirs: usize,
        /// Token ids of this model.
        ours: usize,
    },
    /// The parser gave up within a text.
    #[error("the grammar cannot continue this text: {0}")]
    Stuck(String),
    /// A token that the mask excludes.
    #[error("the grammar does not allow token {0} here")]
    Token(u32),
}

/// The first line of a reason, without what the parser adds for its developers.
pub(super) fn reason(why: impl std::fmt::Display) -> String {
    let why = why.to_string();
    let said = why.split("\n<").next().unwrap_or_default().trim();
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None if line.is_empty() => "no reason was given".to_owned(),
        None => line,
    }
}
