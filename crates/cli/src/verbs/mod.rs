//! The verbs, one file each.

pub(crate) mod devices;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod info;
pub(crate) mod logits;
pub(crate) mod synth;
