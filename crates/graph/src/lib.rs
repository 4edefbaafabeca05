//! What is computed: tensors, ops, the RWKV-7 forward pass as a graph, legality, rewrites, liveness.
//!
//! Knows no file, no GPU and no WGSL.

mod format;
mod shape;
mod weight;

pub use format::{Format, UnknownFormat};
pub use shape::{LoraRanks, ModelShape, ShapeError};
pub use weight::{LayerWeight, Weight, WeightClass};
