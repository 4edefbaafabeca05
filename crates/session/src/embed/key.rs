//! The identity of an embedding: tokens, model, options. Not device or plan: an embedding of another device or plan
//! serves as well.

use super::options::{EmbedOptions, Pooling};
use crate::embedding_cache::Key;
use wgoose_graph::Level;
use wgoose_loader::{EmbeddingHead, Fingerprint};

/// The key of an embedding.
pub(super) fn key(model: &Fingerprint, options: &EmbedOptions, tokens: &[u32]) -> Key {
    let level = match options.level {
        Level::Final => 0,
        Level::Layer(layer) => u64::from(layer) + 1,
    };
    let pooling: u64 = match options.pooling {
        Pooling::Last => 0,
        Pooling::Mean => 1,
        Pooling::Every => 2,
        Pooling::State => 3,
        Pooling::Head(EmbeddingHead::Cls) => 4,
        Pooling::Head(EmbeddingHead::Sts) => 5,
        Pooling::Head(EmbeddingHead::Retr) => 6,
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(model.as_bytes());
    for number in [level, pooling, u64::from(options.normalise), options.prefix.len() as u64] {
        hasher.update(&number.to_le_bytes());
    }
    for token in options.prefix.iter().chain(tokens) {
        hasher.update(&token.to_le_bytes());
    }
    Key(*hasher.finalize().as_bytes())
}
