//! Why a file is no model that can be run.

use crate::adapter::AdapterError;
use crate::blocks::SourceFormat;
use crate::config::ConfigError;
use crate::embedding_heads::EmbeddingHead;
use crate::foreign::Foreign;
use crate::gguf::GgufError;
use crate::other_rwkv::OtherRwkv;
use crate::pth::PthError;
use crate::safetensors::SafetensorsError;
use crate::shards::ShardError;
use crate::unknown::UnknownTensors;
use std::io;
use std::path::{Path, PathBuf};
use wgoose_graph::{Format, ShapeError};

/// Why [`Model::open`](crate::Model::open) refused a file, or why its bytes cannot be had any longer.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened or mapped.
    #[error("cannot read '{}': {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Some bytes of an open file cannot be read: the disk or the network fails.
    #[error("cannot read '{}' at byte {offset}: {source} (check the disk, and copy the file again)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the read began, or the first page that was not there.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file was truncated while it was in use.
    #[error(
        "'{}' was truncated while in use, from {expected} to {found} bytes: copy it again and load it again (to update a \
        model, write a new file beside it and rename)",
        path.display()
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// Its length in bytes when it was opened.
        expected: u64,
        /// Its length in bytes now.
        found: u64,
    },
    /// Other bytes were written into the file while it was in use.
    #[error(
        "'{}' was rewritten in place while in use: load it again (to update a model, write a new file beside it and rename)",
        path.display()
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// The content of a file is no model's, or not what was asked for.
    #[error("'{}': {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<LoadError>,
    },
    /// The content is that of no container this crate reads.
    #[error("{0}")]
    UnknownContainer(Foreign),
    /// A bare pickle, as torch.save wrote it before version 1.6.
    #[error("a .pth of the old layout (a bare pickle): load and save it again with a current torch")]
    LegacyTorch,
    /// The path names no complete model.
    #[error("{0}")]
    Shards(#[from] ShardError),
    /// The `config.json` beside the model describes another one.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The file claims to be GGUF.
    #[error("GGUF: {0}")]
    Gguf(#[from] GgufError),
    /// The file claims to be safetensors.
    #[error("safetensors: {0}")]
    Safetensors(#[from] SafetensorsError),
    /// The file claims to be a torch archive.
    #[error(".pth: {0}")]
    Pth(#[from] PthError),
    /// The file is a model of another version of RWKV.
    #[error(
        "a model of {version} (it has '{tensor}'), which does not run here: take one of RWKV-7, such as those of \
        BlinkDL/rwkv7-g1 on Hugging Face"
    )]
    OtherRwkv {
        /// The version.
        version: OtherRwkv,
        /// A tensor that RWKV-7 has not.
        tensor: String,
    },
    /// A tensor of the model is not there.
    #[error(
        "tensor '{tensor}' is missing: the file holds no complete RWKV-7 model ({explained} of its tensors have {whose})"
    )]
    MissingTensor {
        /// Its name in this kind of file.
        tensor: String,
        /// How many tensors of the file have names of the convention.
        explained: usize,
        /// Whose names they are.
        whose: &'static str,
    },
    /// The file is a reranker.
    #[error(
        "a reranker of EmbeddingRWKV, which reads states of an embedding model: it does not run here; take the embedding \
        model (its name has 'emb') and compare embeddings"
    )]
    Reranker,
    /// A tensor of an embedding head is not there.
    #[error("tensor '{tensor}' is missing: the file has only a part of the embedding head '{head}' (copy it again)")]
    MissingHeadTensor {
        /// Its name in the file.
        tensor: String,
        /// The head.
        head: EmbeddingHead,
    },
    /// The norm of the embedding is not there, and nothing says that the embedding has it in it.
    #[error(
        "tensor '{tensor}' is missing, the norm of the embedding: put the config.json that came with the model beside it \
        (embedding_layer_norm_fused there says whether the norm is folded into the embedding), or take the .pth of this \
        model"
    )]
    MissingEmbeddingNorm {
        /// Its name in the file.
        tensor: String,
    },
    /// The file has tensors that no op reads: what would run is another model.
    #[error(
        "no op reads {0}: what would run is another model (--ignore-unknown runs it without them, and `wgoose convert IN OUT \
        --ignore-unknown` writes it so)"
    )]
    UnknownTensors(UnknownTensors),
    /// A tensor that was asked for by name is not there.
    #[error("there is no tensor '{tensor}'")]
    NoTensor {
        /// Its name.
        tensor: String,
    },
    /// A token-shift mix is a strided view.
    #[error(
        "tensor '{tensor}' is a strided view: save its own numbers, \
        torch.save({{k: v.contiguous() for k, v in state_dict.items()}}, FILE)"
    )]
    Strided {
        /// Its name in the file.
        tensor: String,
    },
    /// A tensor has other sizes than the model needs.
    #[error("tensor '{tensor}' at byte {offset} has shape {dims:?}, expected {expected}")]
    WrongShape {
        /// Its name in the file.
        tensor: String,
        /// Its first byte in the file.
        offset: usize,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
        /// What the rest of the model calls for.
        expected: String,
    },
    /// A tensor that the model needs is stored in a type this project cannot compute with.
    #[error("tensor '{tensor}' is stored as {found}: convert it to F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K")]
    UnsupportedType {
        /// Its name in the file.
        tensor: String,
        /// The container's name for the type.
        found: String,
    },
    /// A tensor that the model needs is stored in a format that only a conversion reads.
    #[error(
        "tensor '{tensor}' is stored as {found}, which only a conversion reads: wgoose convert IN OUT --to Q4_K_M, or another format"
    )]
    ConvertFirst {
        /// Its name in the file.
        tensor: String,
        /// Its format.
        found: SourceFormat,
    },
    /// Norms, biases, mixes and adapters are never quantised.
    #[error("tensor '{tensor}' at byte {offset} is stored as {format}: only the large matrices may be quantised")]
    QuantisedVector {
        /// Its name in the file.
        tensor: String,
        /// Its first byte in the file.
        offset: usize,
        /// Its format.
        format: &'static str,
    },
    /// The six token-shift mixes of a layer are not all stored alike.
    #[error("tensor '{tensor}' is stored as {format}, the layer's other mixes as {others}")]
    MixedFormats {
        /// Its name in the file.
        tensor: String,
        /// Its format.
        format: Format,
        /// The format of `x_r`.
        others: Format,
    },
    /// A key of the file contradicts its tensors.
    #[error("key '{key}' says {declared}, the tensors say {found}")]
    Contradiction {
        /// The key.
        key: &'static str,
        /// Its value.
        declared: u64,
        /// What the tensors' sizes give.
        found: u32,
    },
    /// The layer norms want another epsilon than every RWKV-7 model has.
    #[error("layer norm epsilon {declared}, but RWKV-7 is defined with 1e-5")]
    NormEpsilon {
        /// What the file states.
        declared: f64,
    },
    /// A file is no adapter that can be merged into the model.
    #[error("{0}")]
    Adapter(#[from] AdapterError),
    /// The sizes describe no model.
    #[error("{0}")]
    Shape(#[from] ShapeError),
}

impl LoadError {
    /// What is wrong, where the file is named already.
    pub fn into_reason(self) -> LoadError {
        match self {
            LoadError::Content { source, .. } => *source,
            other => other,
        }
    }

    /// The same of a file, which it names.
    pub(crate) fn of_file(self, path: &Path) -> LoadError {
        match self {
            LoadError::Io { .. }
            | LoadError::Read { .. }
            | LoadError::Shortened { .. }
            | LoadError::Rewritten { .. }
            | LoadError::Content { .. } => self,
            reason => LoadError::Content { path: path.to_owned(), source: Box::new(reason) },
        }
    }
}
