//! How does a plan run on a device? Tokens and state in, logits and state out.
//!
//! ```no_run
//! use std::sync::Arc;
//! use wgoose_kernels::Plan;
//! use wgoose_loader::Model;
//! use wgoose_plans::catalogue;
//! use wgoose_runtime::{Device, Engine, Outputs, Sequence};
//!
//! let (device, model) = (Device::open(None)?, Arc::new(Model::open("model.gguf")?));
//! let plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
//! let mut engine = Engine::gpu(device, model, plan, catalogue::embedded(), 1)?;
//! let logits = engine.forward(&[Sequence { slot: 0, tokens: &[510, 53671], outputs: Outputs::Last }])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The only crate that names wgpu. In reading order: `device` opens a GPU, `engine` divides sequences into passes
//! ([`Batch`]), [`schedule`] makes a pass plain data, `residency` brings weights to the GPU, `pipelines` compiles
//! kernels, `gpu` replays the pass ([`GpuExecutor`]), `decode` and `sampler` continue it token by token.
//! [`CpuExecutor`] is the reference. [`kernel_bench`] checks and times single kernels, `trace` looks into passes.

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

pub use batch::{Batch, Outputs, Padded, Sequence, bucket, check_tokens};
pub use cancel::CancelToken;
pub use cpu::CpuExecutor;
pub use decode::{
    Ahead, ChosenToken, Continuation, DecodeError, DecodeReport, IN_FLIGHT, Logprob, MAX_STOPS, MOST_LISTED, OnTokens,
    Start,
};
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
pub use sampling::{Penalties, Sampling, is_bias, is_penalty, is_repetition};
pub use trace::{Comparison, Divergence, OpError, Place, Traced};
