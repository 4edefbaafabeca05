//! Weights on the device: each shard is uploaded from the file, unchanged, when it is first needed. Vectors become F32.
//! Within a budget, the first shards that fit stay; the others are streamed through a ring.
//!
//! A weight's way: its rows are cut into shards (`row_shard`), these get their places (`layout`), a pass its route past
//! them (`route`); bytes come through staging (`upload`), in other formats by kernels (`repack`); `weights` has the buffers.

mod layout;
mod repack;
mod route;
mod row_shard;
mod upload;
mod weights;

pub(crate) use layout::WeightLayout;
pub(crate) use repack::{RepackKernel, Repacker};
pub(crate) use route::{Group, Need, Placed, route};
pub(crate) use row_shard::{RowShard, shards_of};
pub use upload::StagingSize;
pub(crate) use upload::{Job, Staging, Upload, cut};
pub(crate) use weights::Weights;

/// When weights reach the device, and how long they stay. The results are the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// On first use; they stay.
    #[default]
    Lazy,
    /// All of them at once; they stay.
    Eager,
    /// On first use, within this many bytes of device memory for everything: weights that do not fit pass through a
    /// ring, the least recently used giving way.
    Budget(u64),
}

/// Bytes for weights within a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// For weights that stay.
    pub(crate) pinned: u64,
    /// For those that pass through.
    pub(crate) ring: u64,
    /// Most rows of logits in a pass.
    pub(crate) outputs: u32,
}
