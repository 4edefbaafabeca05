//! Benchmarks of whole sessions: how they are reported, and how fresh processes are measured.

pub(crate) mod cold;
pub(crate) mod report;
