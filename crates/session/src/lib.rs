//! What people call: sessions, tokenizer, sampling, state.

pub mod sampling;
pub mod tokenizer;
