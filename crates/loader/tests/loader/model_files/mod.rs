//! Model files of all three containers, written byte by byte and read back: intact, wrong and hostile ones.

mod config;
mod containers;
mod deep_embed;
mod embedding_heads;
mod embedding_norm;
mod hostile;
mod namings;
mod refusals;
mod shards;
mod state_dicts;
pub(crate) mod support;
mod tensor_files;
mod unknown;
mod views;
