//! Ledgers, statistics, the engine driver and the quality gate.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod aa_rate;
mod driver;
mod extended;
mod judge;
mod ledger;
mod quality;
mod running;
