//! Files of models and blocks of weights: read, written, converted, damaged.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod adapters;
mod blocks;
mod convert;
mod file_faults;
mod model_files;
mod synth;
