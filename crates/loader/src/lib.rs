//! Where do weights come from?
//!
//! ```no_run
//! use wgoose_graph::Weight;
//! use wgoose_loader::Model;
//!
//! let model = Model::open("model.gguf")?;
//! for weight in Weight::all(model.shape()) {
//!     let tensor = model.tensor(weight);
//!     println!("{weight}: {} x {} in {}", tensor.rows(), tensor.cols(), tensor.format());
//! }
//! # Ok::<(), wgoose_loader::LoadError>(())
//! ```
//!
//! From GGUF, safetensors and .pth files over one memory map, from adapters ([`adapter`]), or from a seed ([`synth`]).
//! [`convert`] and [`writer`] write model files; [`blocks`] codes their formats.
//!
//! A file is distrusted once, in [`Model::open`], which bounds, names and checks everything in it. It reads no tensor,
//! except small strided views of a .pth, which it copies. Afterwards [`Model::tensor`] returns borrowed [`TensorView`]s
//! that cannot fail, and [`Model::read`] reads by position: a truncated file or a failing disk is an error, never a
//! signal.
//!
//! ```text
//! path --shards--> files --map--> bytes --gguf | safetensors | pth--> Contents: a Directory of raw tensors, sizes
//!                                                      |
//!              Model: Weight -> TensorView <--placement-- names, shape (deduced from tensors, checked with the keys)
//! ```
//!
//! The layers below know nothing of those above: a container's folder knows neither weights nor models. Absent: any
//! GPU, any network, any code taken from a file (a .pth is a pickle program: only the reconstruction of tensors is
//! run).

#![deny(missing_docs)]

pub mod adapter;
pub mod blocks;
pub mod convert;
pub mod page_cache;
pub mod synth;
pub mod writer;

mod config;
mod contents;
mod embedding_heads;
mod error;
mod file;
mod files;
mod fingerprint;
mod foreign;
mod gguf;
mod map;
mod model;
mod names;
mod other_rwkv;
mod placement;
mod pth;
mod read_at;
mod safetensors;
mod shape;
mod shards;
mod tensors;
mod unknown;
mod view;

pub use config::ConfigError;
pub use contents::{About, DirectoryError};
pub use embedding_heads::{EmbeddingHead, EmbeddingHeadTensors, UnknownEmbeddingHead};
pub use error::LoadError;
pub use fingerprint::Fingerprint;
pub use foreign::Foreign;
pub use gguf::GgufError;
pub use model::{Model, OpenOptions};
pub use names::Container;
pub use other_rwkv::OtherRwkv;
pub use pth::{ArchiveError, PickleError, PthError};
pub use read_at::ReadAt;
pub use safetensors::SafetensorsError;
pub use shards::ShardError;
pub use tensors::TensorFile;
pub use unknown::UnknownTensors;
pub use view::TensorView;

/// The page's programs, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
