//! Ledgers, statistics and the quality gate.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod aa_rate;
mod extended;
mod ledger;
mod quality;
mod running;
