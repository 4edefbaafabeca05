//! What people call: sessions, tokenizer, sampling, state.
