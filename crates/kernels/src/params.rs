//! The uniform block of a dispatch.

use bytemuck::{Pod, Zeroable};

/// The sizes of a dispatch; must match `Params` in `kernels-wgsl/lib/op.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct Params {
    /// Rows of y: tokens, or requested outputs.
    pub rows: u32,
    /// Columns of the first input.
    pub k: u32,
    /// Columns of y.
    pub m: u32,
    /// Heads of the model.
    pub heads: u32,
    /// Segments of the batch.
    pub segments: u32,
    /// First weight row of this dispatch, where a matrix is bound in row shards.
    pub first: u32,
    /// Weight rows of this dispatch.
    pub shard_rows: u32,
    /// Epsilon of a norm, else 0.
    pub eps: f32,
    /// Adapter ranks: decay, in-context learning rate, value, gate.
    pub ranks: [u32; 4],
}
