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
//! This crate knows no file, no GPU and no WGSL.

#![deny(missing_docs)]

mod format;
mod graph;
mod infer;
mod legality;
mod liveness;
mod op;
pub mod rewrite;
pub mod rwkv7;
mod shape;
mod target;
mod text;
mod weight;

pub use format::{Format, FormatInfo, Layout, UnknownFormat};
pub use graph::{Graph, GraphError, Input, Node, NodeId, OpNode, Rows, Source, State, Use, ValueShape};
pub use legality::{Violation, check};
pub use liveness::{Arena, BatchShape, arena};
pub use op::{Activation, Op, Operand, OperandKind};
pub use rewrite::{Fusion, FusionSet};
pub use shape::{LoraRanks, ModelShape, ShapeError};
pub use target::{Level, Target};
pub use text::dot;
pub use weight::{LayerWeight, Weight, WeightClass};
