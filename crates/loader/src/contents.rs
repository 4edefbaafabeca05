//! The contents of a container, in terms all containers share: named raw tensors and the sizes it declares.

use crate::blocks::SourceFormat;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wgoose_graph::{Format, ModelShape};

/// What a reader of a container hands to the model.
#[derive(Debug)]
pub(crate) struct Contents {
    /// The tensors.
    pub(crate) directory: Directory,
    /// Sizes stated beside the tensors, with the key that states them.
    pub(crate) declared: Vec<(&'static str, Size, u64)>,
    /// Epsilon of the layer norms, where stated.
    pub(crate) norm_epsilon: Option<f64>,
    /// The bytes that describe the tensors.
    pub(crate) header: Range<usize>,
    /// Tokens of the vocabulary, where stored.
    pub(crate) vocabulary: Option<Strings>,
    /// Its metadata, of a GGUF file.
    pub(crate) pairs: Option<Pairs>,
    /// What it says for people.
    pub(crate) about: About,
    /// Which part of a split GGUF file it is.
    pub(crate) part: Option<Part>,
}

/// A part of a GGUF file that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// From 0 on.
    pub(crate) number: u64,
    /// How many parts there are: more than one.
    pub(crate) count: u64,
    /// Tensors of all parts, where stated.
    pub(crate) tensors: Option<u64>,
}

/// What a file says of the model beside its sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its name (`general.name`).
    pub name: Option<String>,
    /// Who made it (`general.author`).
    pub author: Option<String>,
    /// Its licence (`general.license`).
    pub licence: Option<String>,
    /// How its matrices are stored as a whole, as llama.cpp names it (`general.file_type`): Q4_K_M.
    pub quantisation: Option<&'static str>,
    /// The kind of its vocabulary (`tokenizer.ggml.model`): rwkv; or the class of its tokenizer (`tokenizer_class` of a
    /// `tokenizer_config.json` beside it).
    pub tokenizer: Option<String>,
    /// Its chat template in Jinja, or the name of one (`tokenizer.chat_template`; of a `tokenizer_config.json` or a
    /// `chat_template.jinja` beside it).
    pub chat_template: Option<String>,
}

/// `count` strings in the file from byte `offset` on, each behind its length (64 bits, little endian).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strings {
    pub(crate) offset: usize,
    pub(crate) count: usize,
}

/// `count` keys with their values in a GGUF file from byte `offset` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    pub(crate) offset: usize,
    pub(crate) count: u64,
}

/// One of the sizes in [`ModelShape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Layers,
    Width,
    Ffn,
    Head,
    Vocab,
    DecayRank,
    IclrRank,
    ValueRank,
    GateRank,
}

impl Size {
    /// Its value in a shape.
    pub(crate) fn of(self, shape: &ModelShape) -> u32 {
        match self {
            Size::Layers => shape.layers,
            Size::Width => shape.width,
            Size::Ffn => shape.ffn,
            Size::Head => shape.head_size,
            Size::Vocab => shape.vocab,
            Size::DecayRank => shape.ranks.decay,
            Size::IclrRank => shape.ranks.iclr,
            Size::ValueRank => shape.ranks.value,
            Size::GateRank => shape.ranks.gate,
        }
    }
}

/// How a tensor's numbers are stored, as far as this crate can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// A format the project computes with.
    Known(Format),
    /// One that only a conversion reads.
    Source(SourceFormat),
    /// Any other, under the container's name for it. An error only if the model needs the tensor.
    Other(String),
}

/// A tensor as a container describes it.
#[derive(Clone, Debug)]
pub(crate) struct RawTensor {
    pub(crate) element: Element,
    /// Sizes, slowest-varying first.
    pub(crate) dims: Vec<usize>,
    /// The bytes are those of the transposed matrix: the *first* of two dims varies fastest.
    pub(crate) first_dim_fastest: bool,
    /// Where it lies in the file, or among the places of several; empty for [`Element::Other`].
    pub(crate) bytes: Range<usize>,
    /// Its row-major bytes, where they lie scattered over that range.
    pub(crate) gathered: Option<Arc<[u8]>>,
}

/// The tensors of a file, or of the shards of one, by name; each lies inside the file.
#[derive(Debug)]
pub(crate) struct Directory {
    file_len: usize,
    tensors: HashMap<String, RawTensor>,
}

/// A tensor is described in a way that no file can satisfy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// Two tensors have one name.
    #[error("tensor '{tensor}' is described twice")]
    Duplicate {
        /// Its name.
        tensor: String,
    },
    /// The size in bytes cannot be computed.
    #[error("tensor '{tensor}': {dims:?} is no shape for {format} (rows are whole blocks; sizes fit in memory)")]
    ImpossibleSize {
        /// Its name.
        tensor: String,
        /// Its format.
        format: &'static str,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
    },
    /// Its bytes do not all lie inside the file.
    #[error(
        "tensor '{tensor}' occupies {len} bytes from byte {offset} on, but the file ends at {end}: is it truncated?"
    )]
    OutOfRange {
        /// Its name.
        tensor: String,
        /// First byte, from the start of the file.
        offset: u64,
        /// Bytes.
        len: usize,
        /// End of what may hold its bytes.
        end: usize,
    },
    /// Two tensors share bytes.
    #[error("tensors '{first}' and '{second}' overlap at byte {offset}")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins inside it.
        second: String,
        /// First byte they share, from the start of the file.
        offset: usize,
    },
}

impl Directory {
    /// A directory of a file of that many bytes, still empty.
    pub(crate) fn new(file_len: usize) -> Self {
        Directory { file_len, tensors: HashMap::new() }
    }

    /// Enters a row-major tensor that begins at byte `offset` of the file.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        element: Element,
        dims: Vec<usize>,
        offset: u64,
    ) -> Result<(), DirectoryError> {
        let bytes = match element {
            Element::Known(format) => self.range(name, format.name(), byte_len(format, &dims), &dims, offset)?,
            Element::Source(format) => {
                let len = whole_rows(&dims, |rows, cols| format.bytes(rows, cols));
                self.range(name, format.name(), len, &dims, offset)?
            }
            Element::Other(_) => 0..0,
        };
        self.insert_raw(name, RawTensor { element, dims, first_dim_fastest: false, bytes, gathered: None })
    }

    /// Enters a tensor whose range is known to lie inside the file.
    pub(crate) fn insert_raw(&mut self, name: &str, tensor: RawTensor) -> Result<(), DirectoryError> {
        match self.tensors.insert(name.to_owned(), tensor) {
            None => Ok(()),
            Some(_) => Err(DirectoryError::Duplicate { tensor: name.to_owned() }),
        }
    }

    /// Adds the tensors of a file that begins at place `base` of several; none has a name that is there.
    pub(crate) fn append(&mut self, other: Directory, base: usize) {
        self.file_len = base + other.file_len;
        self.tensors.extend(other.tensors.into_iter().map(|(name, tensor)| {
            let bytes = tensor.bytes.start + base..tensor.bytes.end + base;
            (name, RawTensor { bytes, ..tensor })
        }));
    }

    fn range(
        &self,
        name: &str,
        format: &'static str,
        len: Option<usize>,
        dims: &[usize],
        offset: u64,
    ) -> Result<Range<usize>, DirectoryError> {
        let len =
            len.ok_or_else(|| DirectoryError::ImpossibleSize { tensor: name.to_owned(), format, dims: dims.to_vec() })?;
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(len)?));
        range.filter(|r| r.end <= self.file_len).ok_or_else(|| DirectoryError::OutOfRange {
            tensor: name.to_owned(),
            offset,
            len,
            end: self.file_len,
        })
    }

    /// Refuses two tensors that share a byte. Not for .pth, where tied tensors legitimately share their storage.
    pub(crate) fn refuse_overlaps(&self) -> Result<(), DirectoryError> {
        let mut by_offset: Vec<_> = self.tensors.iter().filter(|(_, t)| !t.bytes.is_empty()).collect();
        by_offset.sort_unstable_by_key(|(_, t)| t.bytes.start);
        for pair in by_offset.windows(2) {
            let [(first, a), (second, b)] = [pair[0], pair[1]];
            if b.bytes.start < a.bytes.end {
                let offset = b.bytes.start;
                return Err(DirectoryError::Overlap { first: first.clone(), second: second.clone(), offset });
            }
        }
        Ok(())
    }

    /// The tensor of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&RawTensor> {
        self.tensors.get(name)
    }

    /// All names, in no particular order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

/// Bytes of a row-major tensor; `None` where rows are no whole blocks or the size overflows.
pub(crate) fn byte_len(format: Format, dims: &[usize]) -> Option<usize> {
    whole_rows(dims, |rows, cols| format.bytes(rows, cols))
}

/// Bytes of so many rows and columns.
fn whole_rows(dims: &[usize], bytes: impl Fn(usize, usize) -> Option<usize>) -> Option<usize> {
    let (cols, rows) = dims.split_last().unwrap_or((&1, &[]));
    bytes(rows.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?, *cols)
}
