//! Why a .pth file cannot be read: the archive, the pickle program in it, or what the program builds.

use crate::contents::DirectoryError;

/// Why a .pth file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PthError {
    /// The zip archive around everything.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The description of the tensors.
    #[error("data.pkl: {0}")]
    Pickle(#[from] PickleError),
    /// Written on a big-endian machine.
    #[error("the file is big endian: save the model again on a little-endian machine")]
    BigEndian,
    /// What an optimizer continues training with, alone or with weights beside.
    #[error("a checkpoint of an optimizer: save the weights alone, torch.save(model.state_dict(), ...)")]
    Optimizer,
    /// The program builds something else than a dictionary.
    #[error("the file holds no state dict: save model.state_dict(), not the model or a list")]
    NoStateDict,
    /// The file has two state dicts.
    #[error("'{first}' and '{second}' are both state dicts: save the one that is meant in a file of its own")]
    TwoStateDicts {
        /// The key of one.
        first: String,
        /// The key of the other.
        second: String,
    },
    /// The dictionary holds something else than tensors.
    #[error("entry '{entry}' is no tensor: save a flat state dict of names to tensors")]
    NotATensor {
        /// The entry's name, or what stands for one.
        entry: String,
    },
    /// A tensor's sizes make no sense.
    #[error("tensor '{tensor}': sizes and strides are no short lists of numbers, of one length and 0 or greater")]
    Sizes {
        /// The tensor.
        tensor: String,
    },
    /// A tensor is a strided view, and too large to be copied.
    #[error(
        "tensor '{tensor}': shape {dims:?} with strides {strides:?} is a large view of a larger tensor: \
        save its own numbers, torch.save({{k: v.contiguous() for k, v in state_dict.items()}}, FILE)"
    )]
    Strides {
        /// The tensor.
        tensor: String,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<usize>,
    },
    /// A tensor reaches past its storage.
    #[error(
        "tensor '{tensor}': shape {dims:?} from element {offset} on does not fit in storage '{storage}' of {len} bytes"
    )]
    Storage {
        /// The tensor.
        tensor: String,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
        /// Its first element.
        offset: u64,
        /// The storage's name in the archive.
        storage: String,
        /// The storage's bytes.
        len: usize,
    },
    /// The tensors contradict each other.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// What is wrong with the zip archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is damaged.
    #[error("zip archive: {0} (is the file truncated?)")]
    Zip(#[from] rawzip::Error),
    /// An entry is not there.
    #[error("zip archive: no entry '{0}': not written by torch.save, or damaged")]
    Missing(String),
    /// A model is in it as a file.
    #[error("a zip archive with '{0}' in it: unpack it, and name that file")]
    Packed(String),
    /// Two entries have one name.
    #[error("zip archive: two entries '{0}'")]
    Duplicate(String),
    /// An entry cannot be read in place.
    #[error("zip archive: entry '{entry}' is compressed or encrypted: save the model again with torch.save")]
    NotStored {
        /// The entry.
        entry: String,
    },
}

/// What is wrong with the pickle program. Offsets count from the start of the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The program ends before its last instruction.
    #[error("ends at byte {offset} without a result")]
    Truncated {
        /// Its end.
        offset: usize,
    },
    /// An instruction that torch.save does not write for a state dict.
    #[error("instruction {opcode:#04x} at byte {offset} does not belong in a state dict")]
    Opcode {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        offset: usize,
    },
    /// A function or class that a state dict has no need of. It is not run.
    #[error(
        "refuses to call '{name}' at byte {offset}: a state dict needs tensors and dictionaries only (save \
        model.state_dict(), not the model, and no numpy arrays)"
    )]
    Global {
        /// Its module and name.
        name: String,
        /// Where it is asked for.
        offset: usize,
    },
    /// The instruction finds no values of the kind it needs.
    #[error("instruction {opcode:#04x} at byte {offset} finds no {expected}")]
    Operand {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        offset: usize,
        /// What it needs.
        expected: &'static str,
    },
    /// The program builds more than any model needs.
    #[error("more than {limit} {what} at byte {offset}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most accepted.
        limit: usize,
        /// Where the limit was passed.
        offset: usize,
    },
}
