//! The verbs, one file or folder each.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod dev;
pub(crate) mod devices;
pub(crate) mod embed;
pub(crate) mod eval;
pub(crate) mod generate;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod plans;
pub(crate) mod serve;
pub(crate) mod tokenize;
pub(crate) mod tune;
pub(crate) mod verify;
