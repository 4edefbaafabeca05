//! Sessions as people use them: text in, text, embeddings and states out.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod batch;
mod chat;
mod converted;
mod embed;
mod embedding_heads;
mod eval;
mod examples;
mod grammar;
mod grammar_generation;
mod initial_state;
mod logprobs;
mod namings;
mod prefixes;
mod sampling;
mod session;
mod soak;
mod state_file;
mod state_format;
mod stops;
mod support;
mod tokenizer_golden;
mod tokenizer_properties;
mod tools;
mod vocabulary;
