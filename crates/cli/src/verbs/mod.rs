//! The verbs, one file each.

pub(crate) mod bench;
pub(crate) mod devices;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod info;
pub(crate) mod logits;
pub(crate) mod profile;
pub(crate) mod roofline;
pub(crate) mod synth;
pub(crate) mod tune;
pub(crate) mod verify;
