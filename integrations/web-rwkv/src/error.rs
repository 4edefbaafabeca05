//! Why web-rwkv cannot have a model or one of its tensors.

use safetensors::SafeTensorError;
use std::io;
use wgoose_loader::LoadError;

/// Why a file is no model for web-rwkv, or why a tensor cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is no model, or its bytes cannot be read any longer.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model has parts that web-rwkv does not compute, or lacks some that it needs.
    #[error("web-rwkv 0.10.20 does not run this model: {0}")]
    NotRun(&'static str),
    /// A number is too large for F16, or no number at all.
    #[error("{name}[{row}, {col}] is {number}, which F16 does not hold: web-rwkv 0.10.20 loads F16 only")]
    OutOfRange {
        /// The tensor, by the authors' name.
        name: String,
        /// Its row.
        row: usize,
        /// Its column.
        col: usize,
        /// The number in the file.
        number: f32,
    },
}

impl From<ReadError> for SafeTensorError {
    fn from(why: ReadError) -> Self {
        SafeTensorError::IoError(io::Error::other(why))
    }
}
