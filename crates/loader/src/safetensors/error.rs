//! Why a safetensors file cannot be read.

use crate::contents::DirectoryError;

/// Why a safetensors file cannot be read. Offsets count from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsError {
    /// The header does not end inside the file.
    #[error("the header takes {len} bytes from byte 8 on, but the file ends at {end}: is it truncated?")]
    HeaderLength {
        /// Announced bytes.
        len: u64,
        /// Bytes of the file.
        end: usize,
    },
    /// A header beyond anything a model needs.
    #[error("the header takes {len} bytes: {limit} at most are accepted")]
    HeaderTooLarge {
        /// Announced bytes.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// The header is not the JSON it should be.
    #[error("header from byte 8 on: {0}")]
    Header(#[from] serde_json::Error),
    /// The place of a tensor makes no sense.
    #[error("tensor '{tensor}': data_offsets [{begin}, {end}] with {len} bytes of data")]
    Offsets {
        /// The tensor.
        tensor: String,
        /// Where it begins, from the end of the header.
        begin: u64,
        /// Where it ends, from the end of the header.
        end: u64,
        /// Bytes behind the header.
        len: usize,
    },
    /// The place of a tensor is larger or smaller than its shape.
    #[error("tensor '{tensor}' at byte {offset} has {found} bytes, its shape {dims:?} in {dtype} takes {expected}")]
    Length {
        /// The tensor.
        tensor: String,
        /// Where it begins in the file.
        offset: u64,
        /// Bytes between its offsets.
        found: u64,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
        /// Its type.
        dtype: String,
        /// Bytes of that shape.
        expected: usize,
    },
    /// A tensor does not fit in the file.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}
