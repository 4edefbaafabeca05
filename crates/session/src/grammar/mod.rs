//! Grammars for structured output: which tokens may come next, so that a text is JSON of a schema, matches a regular
//! expression, is one of a list, or follows a grammar in Lark's or GBNF's notation.
//!
//! A [`GrammarCompiler`] belongs to a vocabulary and compiles a [`GrammarSource`] to a [`Grammar`]; each sequence has
//! a [`Matcher`]. The parser is `llguidance`: a lexer of derivatives and an Earley parser, which walk a trie of the
//! vocabulary. Tokens that a grammar forces are those that the tokenizer would choose, by greedy longest match.
//!
//! [`Grammar::after`] waits for a text, such as the end of thoughts or the beginning of a tool call, before a grammar
//! applies; every token is allowed until then.

mod closed;
mod compiler;
mod error;
mod gbnf;
mod lazy;
mod matcher;
mod source;
mod vocabulary;

pub use compiler::{Grammar, GrammarCompiler};
pub use error::GrammarError;
pub use lazy::{GrammarTrigger, Waiting};
pub use matcher::Matcher;
pub(crate) use matcher::rule_out;
pub use source::GrammarSource;
pub(crate) use source::{NamedGrammar, Rules};
