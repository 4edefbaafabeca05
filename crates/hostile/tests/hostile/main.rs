//! Bytes of strangers: every reader ends with a result or an error.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod inputs;
mod requests;
