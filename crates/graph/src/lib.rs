//! What is computed: tensors, ops, the RWKV-7 forward pass as a graph, legality, rewrites, liveness.
//!
//! Knows no file, no GPU and no WGSL. Start with [`rwkv7::forward`], the model on one page.

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
