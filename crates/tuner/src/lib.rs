//! Finds the plan: space, measurement, quality gate, ledger.

pub mod ledger;
pub mod stats;
