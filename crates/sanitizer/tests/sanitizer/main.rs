//! Small shaders, right and wrong.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod findings;
mod mutations;
mod refusals;
mod right;
mod tiny;
mod values;
