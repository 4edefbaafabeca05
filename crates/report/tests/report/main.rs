//! Reports and T4 results of ledgers.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod report;
mod t4;
