//! Finds the plan: space, measurement, quality gate, ledger. Start with [`sweep`](sweep::sweep).

#![deny(missing_docs)]

pub mod derive;
pub mod drive;
pub mod experiment;
pub mod interrupt;
pub mod job;
pub mod kernel_tuning;
pub mod lab;
pub mod ledger;
pub mod memo;
pub mod objective;
pub mod paired;
pub mod quality;
pub mod report;
mod running;
pub mod scenario;
pub mod seeds;
pub mod space;
pub mod stats;
mod structure;
pub mod sweep;
pub mod t4;
