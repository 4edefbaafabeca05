//! Bytes of strangers: every reader ends with a result or an error.

mod inputs;
mod requests;
