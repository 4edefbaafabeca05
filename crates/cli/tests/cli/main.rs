//! The built `wgoose`: what it prints, what it writes, how it fails.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod binary;
mod cold;
mod goldens;
mod memory;
mod profiles;
mod refusals;
mod traces;
mod verbs;
