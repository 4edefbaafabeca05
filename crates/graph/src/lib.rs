//! What is computed for a token?
//!
//! ```
//! use wgoose_graph::{Fusion, FusionSet, ModelShape, check, rewrite, rwkv7};
//!
//! let shape = ModelShape::preset("0.1B").ok_or("no such size")?;
//! let mut graph = rwkv7::forward(&shape)?;
//! let unfused = graph.op_ids().count();
//! rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL))?;
//! check(&graph)?;
//! assert!(graph.op_ids().count() < unfused);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A model's forward pass is a [`Graph`]. Its nodes are *sources* (weights, states, token ids) and *ops* ([`Op`]):
//! norms, matrix products, the recurrence. An op makes one value, so a node names both; its edges say which value each
//! *operand* reads. A pass works on a batch: the packed tokens of several sequences, a *segment* each. A value has a
//! row for each token. A state has a row for each sequence slot, and exactly one op updates it.
//!
//! In reading order: `shape` has a model's sizes ([`ModelShape`]), `weight` and `format` its weights and how they are
//! stored, `op` and `graph` the nodes, [`rwkv7`] the model on one page, unfused. `infer` gives values their sizes, and
//! `legality` is one table that [`check`] holds every graph against. [`rewrite`] fuses: a [`Fusion`] replaces ops by
//! one op that computes the same, or says why it does not apply. `liveness` gives values slots ([`arena`]). `target`
//! cuts a graph for embeddings, and `text` prints it.
//!
//! This crate knows no file, no GPU and no WGSL. Without its feature `ops` it has sizes, weights and formats only.

#![deny(missing_docs)]

mod format;
mod shape;
mod weight;

#[cfg(feature = "ops")]
mod graph;
#[cfg(feature = "ops")]
mod infer;
#[cfg(feature = "ops")]
mod legality;
#[cfg(feature = "ops")]
mod liveness;
#[cfg(feature = "ops")]
mod op;
#[cfg(feature = "ops")]
pub mod rewrite;
#[cfg(feature = "ops")]
pub mod rwkv7;
#[cfg(feature = "ops")]
mod target;
#[cfg(feature = "ops")]
mod text;

pub use format::{Format, FormatInfo, Layout, UnknownFormat};
pub use shape::{LoraRanks, ModelShape, ShapeError};
pub use weight::{LayerWeight, Weight, WeightClass};

#[cfg(feature = "ops")]
pub use graph::{Graph, GraphError, Input, Node, NodeId, OpNode, Rows, Source, State, Use, ValueShape};
#[cfg(feature = "ops")]
pub use legality::{Violation, check};
#[cfg(feature = "ops")]
pub use liveness::{Arena, BatchShape, arena};
#[cfg(feature = "ops")]
pub use op::{Activation, Op, Operand, OperandKind};
#[cfg(feature = "ops")]
pub use rewrite::{Fusion, FusionSet};
#[cfg(feature = "ops")]
pub use target::{Level, Target};
#[cfg(feature = "ops")]
pub use text::dot;

/// The page's programs, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
