//! Why a model file cannot be written.

use super::Mix;
use crate::names::Container;
use std::io;
use std::path::PathBuf;
use wgoose_graph::{Format, ShapeError};

/// Why no model file was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The sizes are no model's.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The embedding has its norm in it.
    #[error(
        "the norm of this model's embedding is folded into the embedding, which neither GGUF nor safetensors with the \
        authors' names can say: convert the .pth that the model was made of"
    )]
    FoldedNorm,
    /// A container that is only read.
    #[error("models are written as GGUF or safetensors, not as {0}")]
    Container(Container),
    /// Rows that are no whole number of blocks.
    #[error(
        "tensor '{tensor}' has rows of {cols} weights, {format} needs a multiple of {}: choose another mix or width",
        format.block_weights()
    )]
    RowLength {
        /// Its name in the file.
        tensor: String,
        /// Weights in a row.
        cols: u32,
        /// The format the mix asks for.
        format: Format,
    },
    /// A file beyond what can be addressed.
    #[error("tensor '{tensor}' is too large to be addressed: choose a smaller shape")]
    TooLarge {
        /// Its name in the file.
        tensor: String,
    },
    /// A quantised mix in a container without quantised types.
    #[error("safetensors holds F32, F16 and BF16: write a GGUF file for {0}")]
    FloatsOnly(Mix),
    /// Formats chosen weight by weight in a container that has one throughout.
    #[error("safetensors files have one format here: write a GGUF file for formats chosen tensor by tensor")]
    OneFormat,
    /// A model whose tensors a container has no names for.
    #[error("GGUF has no names for the tensors of {0} (DeepEmbed): write a safetensors file (.st)")]
    NoGgufNames(&'static str),
    /// An embedding model in a container that has no names for its heads.
    #[error("GGUF has no names for the heads of an embedding model: write a safetensors file (.st)")]
    NoGgufHeads,
    /// Metadata for a container that has none.
    #[error("safetensors files have no metadata here: write a GGUF file to set some (--set)")]
    NoMetadata,
    /// A key that is to be set says what the tensors say.
    #[error("key '{key}' is as the tensors are: it cannot be set")]
    KeyOfTensors {
        /// The key.
        key: String,
    },
    /// A value of another type than the key's.
    #[error("key '{key}' holds {expected}: it cannot be set to '{value}'")]
    KeyKind {
        /// The key.
        key: String,
        /// What it holds.
        expected: &'static str,
        /// The value asked for.
        value: String,
    },
    /// More tokens than rows of the embedding.
    #[error("the vocabulary has {tokens} tokens, the model has rows for {rows}")]
    Vocabulary {
        /// Tokens given.
        tokens: usize,
        /// Rows of embedding and head.
        rows: u32,
    },
    /// The name is taken.
    #[error("'{}' exists already: choose another name, or have it replaced (--force)", path.display())]
    Exists {
        /// The file asked for.
        path: PathBuf,
    },
    /// The caller ended it while it was shown the progress.
    #[error("stopped before the file was complete: nothing was kept")]
    Stopped,
    /// The system refused: no such folder, no permission, disk full.
    #[error("cannot {doing} '{}': {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
