//! Searches, ledgers, statistics and reports.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod aa_rate;
mod extended;
mod ledger;
mod made_up;
mod quality;
mod recorded;
mod report;
mod search;
mod seeds;
mod short;
mod slow;
mod sweep;
mod t4;
