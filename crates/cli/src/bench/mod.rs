//! Benchmarks of whole sessions: how they are reported, how fresh processes are measured, and named workloads.

pub(crate) mod cold;
pub(crate) mod report;
pub(crate) mod workloads;
