//! What is computed.
//!
//! A model's forward pass is a [`Graph`]. Its nodes are *sources* (weights, states, token ids) and *ops* ([`Op`]): norms, matrix
//! products, the recurrence. An op makes one value, so a node names both; its edges say which value each *operand* reads. A pass
//! works on a batch: tokens of several sequences packed one behind the other, a *segment* each. Values have a row for each token;
//! states have a row for each sequence slot, and one op alone that updates each of them.
//!
//! [`rwkv7::forward`] writes the model down, on one page, unfused. A [`Fusion`] is a rewrite: it replaces some ops by one that
//! computes the same, or says why not ([`rewrite`]). [`check`] holds every graph against one table of legality before and after.
//! Then [`Graph::schedule`] orders the ops, and [`arena`] gives values slots by their liveness.
//!
//! Sizes are those of a [`ModelShape`]; how a weight is stored is its [`Format`], a row of one table. This crate knows no file,
//! no GPU and no WGSL.

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
