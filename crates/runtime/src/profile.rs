//! Where the time of a pass goes: plain data, made by [`GpuExecutor::profile`](crate::GpuExecutor::profile).

use crate::kernel_bench::ClockSource;
use crate::kernel_bench::roofline::Quantity;
use wgoose_graph::{BatchShape, NodeId};

/// Where the time of a pass goes. All times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Sizes of the batch.
    pub batch: BatchShape,
    /// What the times of whole passes on the GPU were measured with.
    pub clock: ClockSource,
    /// From the call until its logits are in memory, one a run. Wall clock.
    pub wall: Vec<f64>,
    /// The pass on the GPU, nothing between its dispatches, one a run.
    pub gpu: Vec<f64>,
    /// The same dispatches with the same weights, but reading old activations and writing to buffers of their own, so
    /// that none waits for another; one a run. Empty if these buffers would take too much memory.
    pub independent: Vec<f64>,
    /// The dispatches in order, each with its time in passes with a timestamp after every dispatch.
    pub dispatches: Vec<DispatchProfile>,
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchProfile {
    /// The op it belongs to, in the graph of the pass.
    pub node: NodeId,
    /// Name of the op.
    pub op: &'static str,
    /// Its role in the model, e.g. `att.key`.
    pub role: &'static str,
    /// The layer it belongs to.
    pub layer: Option<u32>,
    /// `op/variant` and tunables.
    pub kernel: String,
    /// From the end of the dispatch before to its own end, what the timestamp takes included: mean over the middle half
    /// of the runs.
    pub ns: f64,
    /// Bytes that it must move at least.
    pub bytes: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// The rate that bounds its arithmetic, as its text tells.
    pub arithmetic: Quantity,
}

impl Profile {
    /// The pass with a timestamp after every dispatch: the sum over them.
    pub fn timestamped(&self) -> f64 {
        self.dispatches.iter().map(|d| d.ns).sum()
    }
}
