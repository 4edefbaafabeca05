//! The verbs, each a file or a folder of its own.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod embed;
pub(crate) mod eval;
pub(crate) mod experiment;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod info;
pub(crate) mod kernel;
pub(crate) mod logits;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod plans;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod roofline;
pub(crate) mod synth;
pub(crate) mod tokenize;
pub(crate) mod trace;
pub(crate) mod trial;
pub(crate) mod tune;
pub(crate) mod verify;
