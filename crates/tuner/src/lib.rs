//! Finds the plan: space, measurement, quality gate, ledger. Start with [`sweep`](sweep::sweep).

#![deny(missing_docs)]

pub mod journal;
pub mod ledger;
pub mod quality;
pub mod race;
pub mod screen;
pub mod space;
pub mod stats;
mod structure;
pub mod sweep;
