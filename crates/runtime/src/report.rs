//! The costs of loading so far: bytes, seconds, memory by purpose.

use crate::schedule::Unfused;
use crate::{DeviceMemory, PipelineCounts};

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The model file, mapped; its pages belong to the system's cache.
    pub mapped: u64,
    /// Weights that stay on the device.
    pub weights: u64,
    /// The ring through which the other weights pass.
    pub ring: u64,
    /// The recurrent state of every slot.
    pub state: u64,
    /// Activations of the largest pass.
    pub activations: u64,
    /// Tables and uniform blocks of passes.
    pub tables: u64,
    /// Buffers through which weights are uploaded.
    pub staging: u64,
    /// Buffers through which results are read back.
    pub read_back: u64,
}

impl Footprint {
    /// All but the mapped file.
    pub fn on_device(&self) -> u64 {
        self.weights + self.ring + self.beside_weights()
    }

    /// What the device holds beside weights.
    pub(crate) fn beside_weights(&self) -> u64 {
        self.state + self.activations + self.tables + self.staging + self.read_back
    }

    /// Names and bytes, for tables.
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("file, mapped", self.mapped),
            ("weights", self.weights),
            ("ring for streamed weights", self.ring),
            ("state", self.state),
            ("activations", self.activations),
            ("tables", self.tables),
            ("upload staging", self.staging),
            ("read-back staging", self.read_back),
        ]
    }
}

/// What loading has taken so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Bytes of weights uploaded; streamed ones count every time.
    pub uploaded: u64,
    /// Seconds during which weights were under way to the device.
    pub upload_seconds: f64,
    /// Kernels compiled or found.
    pub pipelines: PipelineCounts,
    /// Memory by what it is for.
    pub footprint: Footprint,
    /// Most bytes of upload staging at a time.
    pub peak_staging: u64,
    /// Memory as the device's allocator sees it, where the backend says: now, and the most while weights arrived.
    pub device: Option<DeviceMemory>,
    /// See [`LoadReport::device`].
    pub peak_device: Option<DeviceMemory>,
    /// Whether the step of a single token uses persistent kernels, if the plan asks for them and they were tried.
    pub persistent: Option<PersistentStatus>,
}

/// What became of the persistent kernels that a plan asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum PersistentStatus {
    /// They are used.
    Used {
        /// Dispatches of a step.
        dispatches: usize,
        /// Layers that are part of one.
        layers: usize,
    },
    /// One dispatch per op is used instead: why.
    Refused(NotPersistent),
}

/// Why one dispatch per op is used where a plan asks for persistent kernels.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotPersistent {
    /// The plan's kernels have no such form.
    #[error(transparent)]
    Unfused(#[from] Unfused),
    /// The driver refused the kernel.
    #[error("{0}")]
    Compile(String),
    /// There is no state to try it on.
    #[error("there is no state to try it on")]
    NoSpareState,
    /// The device does not keep as many workgroups resident.
    #[error("its workgroups did not all run at once")]
    TimedOut,
    /// It computes something else.
    #[error("its logits are {relative:.1e} from those of one dispatch per op")]
    Differs {
        /// Root mean square of the difference, relative to that of the logits.
        relative: f64,
    },
    /// Weights pass through.
    #[error("the model does not stay on the device")]
    Streamed,
}
