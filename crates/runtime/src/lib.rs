//! Runs a plan on a device: tokens and state in, logits and state out.
//!
//! The only crate that names wgpu. Start with [`Engine`]; below it, [`GpuExecutor`] replays recordings of
//! [`schedule`], [`CpuExecutor`] interprets the graph, and [`kernel_bench`] checks and times single kernels.

#![deny(missing_docs)]

mod batch;
mod cancel;
mod cpu;
mod decode;
mod device;
mod engine;
mod error;
mod executor;
mod gpu;
pub mod kernel_bench;
pub mod logits;
mod opening;
mod packed;
mod pipelines;
mod profile;
mod report;
mod residency;
mod sampler;
mod sampling;
pub mod schedule;
pub mod timeline;
mod trace;

pub use batch::{Batch, Outputs, Sequence, check_tokens};
pub use cancel::CancelToken;
pub use cpu::CpuExecutor;
pub use decode::{Continuation, DecodeError, DecodeReport, IN_FLIGHT, MAX_STOPS, Start};
pub use device::{
    AdapterIdentity, AdapterSummary, Device, DeviceLimits, DeviceMemory, DeviceOptions, WGPU_VERSION, adapters,
};
pub use engine::{Engine, NotFinite, OnPass};
pub use error::{BatchError, RuntimeError};
pub use executor::{Decoder, Executor, StateData};
pub use gpu::{GpuExecutor, Graphs, Planned};
pub use opening::FoundAdapter;
pub use pipelines::PipelineCounts;
pub use profile::{DispatchProfile, Profile};
pub use report::{Footprint, LoadReport, NotPersistent, PersistentStatus};
pub use residency::{Residency, StagingSize};
pub use sampling::{Penalties, Sampling, is_bias, is_penalty};
pub use trace::{Comparison, Divergence, OpError, Place, Traced};
