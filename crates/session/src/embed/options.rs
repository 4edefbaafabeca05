//! Options of embeddings.

use std::num::NonZeroUsize;
use wgoose_graph::Level;
use wgoose_loader::{EmbeddingHead, Model};

/// What is made of a text's hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The one after the last token, `[C]`.
    Last,
    /// Their mean over the text's tokens, `[C]`.
    #[default]
    Mean,
    /// All of them, `[T, C]` row major.
    Every,
    /// The WKV state of the layer instead, `[H, value, key]` row major: for the final level that of the last layer.
    State,
    /// A head of an embedding model, of the final hidden state after [`END_OF_TEXT`](crate::END_OF_TEXT), `[C]`. That
    /// token is read behind each text that does not end with it.
    Head(EmbeddingHead),
}

/// How to embed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedOptions {
    /// Where hidden states are taken; layers above it are not computed.
    pub level: Level,
    /// What is made of them.
    pub pooling: Pooling,
    /// Whether each row (the whole state for [`Pooling::State`]) is divided by its L2 norm.
    pub normalise: bool,
    /// Tokens read before each text, such as an instruction: read once, in a pass of its own, and kept in the prefix cache
    /// if there is one. Their hidden states are not part of a mean.
    pub prefix: Vec<u32>,
    /// Most tokens of several texts in one pass; a longer text is read alone. Default: the plan's chunk. Changes no bit.
    pub token_budget: Option<NonZeroUsize>,
}

impl EmbedOptions {
    /// What a model embeds with unless something else is asked for: the head for retrieval of an embedding model, as
    /// PyPI's `rwkv-emb` has it, and the default otherwise.
    pub fn of(model: &Model) -> Self {
        let has_retrieval = model.embedding_heads().any(|head| head == EmbeddingHead::Retr);
        let pooling = if has_retrieval { Pooling::Head(EmbeddingHead::Retr) } else { Pooling::default() };
        EmbedOptions { pooling, ..EmbedOptions::default() }
    }
}

impl Default for EmbedOptions {
    /// The normalised mean of the final hidden states.
    fn default() -> Self {
        let (level, pooling, prefix) = (Level::Final, Pooling::default(), Vec::new());
        EmbedOptions { level, pooling, normalise: true, prefix, token_budget: None }
    }
}
