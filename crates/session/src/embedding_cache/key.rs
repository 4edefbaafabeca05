//! What an embedding is kept under.

/// Stands for what an embedding is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) [u8; 32]);
