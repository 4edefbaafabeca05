//! Why a GGUF file cannot be read.

use crate::contents::DirectoryError;

/// Why a GGUF file cannot be read. Offsets count from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The file ends inside something.
    #[error("{what} at byte {offset} needs {needed} bytes, but the file ends at {end}: is it truncated?")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        offset: usize,
        /// Its bytes.
        needed: u64,
        /// Bytes of the file.
        end: usize,
    },
    /// The file was written for a big-endian machine.
    #[error("the file is big endian: convert the model again for a little-endian machine")]
    BigEndian,
    /// A version of the layout this crate does not know.
    #[error("version {0} of the layout: expected 2 or 3; convert the model again")]
    Version(u32),
    /// More entries than bytes to hold them.
    #[error("{count} {what} cannot lie in the {left} bytes after byte {offset}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many are announced.
        count: u64,
        /// Where they begin.
        offset: usize,
        /// Bytes left in the file.
        left: usize,
    },
    /// A name is no UTF-8.
    #[error("the {what} at byte {offset} is no UTF-8")]
    Name {
        /// What is named.
        what: &'static str,
        /// Where the name begins.
        offset: usize,
    },
    /// A value of a type that does not exist.
    #[error("key '{key}' has value type {found} at byte {offset}: expected 0 to 12")]
    ValueType {
        /// The key.
        key: String,
        /// The number found.
        found: u32,
        /// Where it stands.
        offset: usize,
    },
    /// Arrays in arrays in arrays.
    #[error("key '{key}': arrays nested deeper than {limit} at byte {offset}")]
    Nesting {
        /// The key.
        key: String,
        /// The deepest nesting accepted.
        limit: usize,
        /// Where the next array begins.
        offset: usize,
    },
    /// Two values for one key.
    #[error("key '{key}' stands twice, again at byte {offset}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stands the second time.
        offset: usize,
    },
    /// A key the model cannot do without.
    #[error("key '{0}' is missing")]
    MissingKey(&'static str),
    /// A key's value is of a kind that makes no sense for it.
    #[error("key '{key}' is no {expected}")]
    KeyKind {
        /// The key.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Something else than a model (`general.type`): an adapter, for instance.
    #[error("key 'general.type' says '{kind}', not 'model': {}", instead_of(kind))]
    Type {
        /// What it says.
        kind: String,
    },
    /// Another kind of model.
    #[error("a model of architecture '{0}': only 'rwkv7' can be run (llama.cpp runs others)")]
    Architecture(String),
    /// An alignment that nothing can be aligned to.
    #[error("alignment {0}: expected a power of two, 2^30 at most")]
    Alignment(u64),
    /// A tensor of more dimensions than GGUF has.
    #[error("tensor '{tensor}' has {count} dimensions at byte {offset}: expected 1 to 4")]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// Their announced number.
        count: u32,
        /// Where the number stands.
        offset: usize,
    },
    /// A size that no memory can hold.
    #[error("tensor '{tensor}': size {size} at byte {offset} cannot be addressed")]
    Size {
        /// The tensor.
        tensor: String,
        /// The size.
        size: u64,
        /// Where it stands.
        offset: usize,
    },
    /// A tensor that does not begin where the alignment demands.
    #[error("tensor '{tensor}' begins at {offset} of the data section: no multiple of the alignment {alignment}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset from the start of the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor does not fit in the file.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// What to do with a file of another type (`GGUFType` in llama.cpp's `gguf-py/gguf/constants.py`).
fn instead_of(kind: &str) -> &'static str {
    match kind {
        "adapter" => "merge it into its model with llama.cpp's llama-export-lora, and take the file that writes",
        "imatrix" => "it helps to quantise a model; take the model",
        "mmproj" => "it brings pictures or sound into a model; take the model",
        _ => "take the model",
    }
}
