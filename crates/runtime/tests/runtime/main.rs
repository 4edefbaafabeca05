//! Kernels, models and samplers on the device of this machine.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod judge;
mod model;
mod pipeline_cache;
mod repack;
mod sampling;
mod sanitize;
mod sparse;
mod variants;
