//! The key of a cached embedding.

/// Stands for what an embedding is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) [u8; 32]);
