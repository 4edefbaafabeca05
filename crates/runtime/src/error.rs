//! Errors of running a plan.

use crate::schedule::{FuseError, Unfused};
use wgoose_graph::{GraphError, ShapeError, Violation, Weight};
use wgoose_kernels::PlanError;

/// What can go wrong when a plan is run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is no device at all.
    #[error(
        "no GPU adapter found: install a Vulkan driver (Debian and Ubuntu without a GPU: mesa-vulkan-drivers), or run on the CPU with --backend cpu"
    )]
    NoAdapter,
    /// No device of that name.
    #[error("no adapter matches '{wanted}': there are {available}")]
    UnknownAdapter {
        /// What was asked for.
        wanted: String,
        /// The adapters there are.
        available: String,
    },
    /// A part of a name, or an address without its domain, that several devices have.
    #[error("'{wanted}' is meant by several adapters: {several}; name an index, a PCI address or a UUID")]
    AmbiguousAdapter {
        /// What was asked for.
        wanted: String,
        /// The adapters that it could be.
        several: String,
    },
    /// The environment names limits that there are not.
    #[error("{variable} is '{wanted}': it can be own, webgpu or low")]
    UnknownLimits {
        /// The environment variable.
        variable: &'static str,
        /// What it says.
        wanted: String,
    },
    /// The driver refuses.
    #[error("adapter '{adapter}' cannot be opened: {why}")]
    Open {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        why: String,
    },
    /// The caller ended it ([`CancelToken`](crate::CancelToken)).
    #[error("cancelled")]
    Cancelled,
    /// The device refused a command.
    #[error("the device failed {during}: {why}")]
    Device {
        /// What was being done.
        during: String,
        /// What the driver said.
        why: String,
    },
    /// The device is gone: a driver reset, or a kernel that ran for too long.
    #[error("the device was lost {during}: {why}")]
    DeviceLost {
        /// What was being done.
        during: String,
        /// What the driver said.
        why: String,
    },
    /// The device does not end what it was given: a kernel that runs for ever, or a device far too slow.
    #[error(
        "{during} did not end within {seconds} s: a kernel may never end (try other kernels or the default plan), or the device is slow (raise --patience)"
    )]
    TimedOut {
        /// What ran.
        during: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The driver does not compile a kernel.
    #[error("the driver cannot compile {kernel}: {why}")]
    Compile {
        /// The kernel.
        kernel: String,
        /// What the driver said.
        why: String,
    },
    /// The model file cannot be read any more.
    #[error(transparent)]
    Model(#[from] wgoose_loader::LoadError),
    /// The weights that one dispatch needs do not fit beside what stays.
    #[error(
        "one dispatch needs {} MiB of weights at once, the memory budget leaves {} MiB: raise --gpu-budget",
        mib(*need),
        mib(*ring)
    )]
    RingTooSmall {
        /// Bytes needed.
        need: u64,
        /// Bytes of the ring.
        ring: u64,
    },
    /// The budget does not even hold what a pass needs beside its weights.
    #[error(
        "a memory budget of {} MiB is too small for this model and plan, which need at least {need} bytes ({} MiB, with what allocators and \
         staging hold): raise --gpu-budget, or lower --chunk",
        mib(*budget),
        mib(*need)
    )]
    BudgetTooSmall {
        /// The budget.
        budget: u64,
        /// Bytes needed.
        need: u64,
    },
    /// The device has no memory left.
    #[error(
        "the GPU ran out of memory {during}: close what else uses it, or let the weights pass through a smaller budget with --gpu-budget"
    )]
    OutOfMemory {
        /// What was being done.
        during: String,
    },
    /// Dispatches cannot be timed one by one.
    #[error("this device cannot time the dispatches of a pass ({why}): profile on another one")]
    Untimed {
        /// What it lacks.
        why: &'static str,
    },
    /// A pass of which weights are uploaded each time has no dispatches that could be timed or looked at on their own.
    #[error(
        "weights pass through a ring: a profile or a trace needs all of them on the GPU, raise --gpu-budget or leave it out"
    )]
    Streamed,
    /// The plan does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The pass has no fused form.
    #[error(transparent)]
    Unfused(#[from] Unfused),
    /// The model's sizes make no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The model's sizes make no graph.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A rewrite left an illegal graph.
    #[error(transparent)]
    Illegal(#[from] Violation),
    /// The batch cannot be run.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Sequences cannot be continued on the device.
    #[error(transparent)]
    Decode(#[from] crate::DecodeError),
    /// A matrix cannot be bound.
    #[error("{weight}: one row of {row_bytes} bytes is larger than the device's largest binding, {limit} bytes")]
    RowTooLarge {
        /// The tensor.
        weight: Weight,
        /// Bytes of a row.
        row_bytes: u64,
        /// Largest binding.
        limit: u64,
    },
    /// A matrix that must be bound whole is too large.
    #[error(
        "{weight} is larger than the device's largest binding and {op} cannot be split into row shards: leave that fusion out"
    )]
    Unsplit {
        /// The tensor.
        weight: Weight,
        /// The op.
        op: &'static str,
    },
    /// A value cannot be bound.
    #[error(
        "{what} of this batch needs {need} bytes, the device binds at most {limit}: use a smaller prefill chunk or fewer outputs"
    )]
    ValueTooLarge {
        /// Which value.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Largest binding.
        limit: u64,
    },
    /// A plane of a value does not begin where the device can bind it.
    #[error("width {width} gives planes at offsets that are no multiple of the {alignment} bytes this device binds at")]
    Alignment {
        /// Width of the model.
        width: u32,
        /// What the device needs.
        alignment: u32,
    },
    /// More workgroups than a dispatch can have.
    #[error("{kernel} needs {workgroups} workgroups, more than a dispatch can have")]
    DispatchTooLarge {
        /// The kernel.
        kernel: String,
        /// Workgroups needed.
        workgroups: u64,
    },
    /// A state of another size.
    #[error("state {tensor} has {got} floats, this model's has {want}")]
    StateSize {
        /// The tensor.
        tensor: String,
        /// What was given.
        got: usize,
        /// What the model has.
        want: usize,
    },
}

/// Why sequences cannot be packed into a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Nothing to do.
    #[error("sequence {0} has no tokens")]
    Empty(usize),
    /// A token the model does not know.
    #[error("token {token} of sequence {sequence} at position {position} is not below the vocabulary size {vocab}")]
    Token {
        /// Index of the sequence.
        sequence: usize,
        /// Position in it.
        position: usize,
        /// The token.
        token: u32,
        /// Vocabulary size.
        vocab: u32,
    },
    /// A state slot that does not exist.
    #[error("sequence {sequence} names state slot {slot}, there are {slots}")]
    Slot {
        /// Index of the sequence.
        sequence: usize,
        /// The slot.
        slot: usize,
        /// Slots there are.
        slots: usize,
    },
    /// A sequence that was in a pass that failed, or that left out layers.
    #[error(
        "sequence {sequence} names state slot {slot}, whose last pass failed or stopped between layers: set or reset its state first"
    )]
    Invalidated {
        /// Index of the sequence.
        sequence: usize,
        /// The slot.
        slot: usize,
    },
    /// A layer that the model does not have.
    #[error("there is no layer {layer}: the model has {layers}, numbered from 0")]
    Layer {
        /// The layer.
        layer: u32,
        /// Layers of the model.
        layers: u32,
    },
    /// Logits of a model that only embeds texts.
    #[error(
        "this model has no output head, so it makes no logits and generates nothing: it embeds texts (wgoose embed)"
    )]
    NoOutputHead,
    /// Two sequences on one state.
    #[error("sequences {0} and {1} share a state slot")]
    SharedSlot(usize, usize),
}

impl From<FuseError> for RuntimeError {
    fn from(error: FuseError) -> Self {
        match error {
            FuseError::Unfused(why) => why.into(),
            FuseError::Text(wrong) => wrong.into(),
        }
    }
}

/// As people read sizes; rounded up, so that what is said to suffice does.
fn mib(bytes: u64) -> String {
    format!("{:.1}", (bytes as f64 / f64::from(1 << 20) * 10.0).ceil() / 10.0)
}
