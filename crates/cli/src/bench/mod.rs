//! Benchmarks of whole sessions: measured, recorded, reported.

pub(crate) mod measure;
pub(crate) mod record;
pub(crate) mod report;
