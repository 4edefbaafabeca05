//! Which plan should be tried next?
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use wgoose_loader::Model;
//! use wgoose_runtime::Device;
//! use wgoose_tuner::sweep::{SweepOptions, sweep};
//!
//! # fn options(device: &Device) -> SweepOptions { unimplemented!() }
//! let (device, model) = (Device::open(None)?, Arc::new(Model::open("model.gguf")?));
//! let swept = sweep(&device, &model, &options(&device), &mut |event| {
//!     println!("{event}");
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A search asks `wgoose-measure` for jobs until its budget is spent; it knows no device and no clock. In reading
//! order: [`sweep`](mod@sweep) finds the fastest plan, [`kernel_tuning`] the fastest kernel for one kind of op
//! instance, `structure` the layouts, fusions and chunk, [`arms`] kernels for the arms of an experiment; [`seeds`] are
//! configurations to try first.

#![deny(missing_docs)]

pub mod arms;
pub mod kernel_tuning;
pub mod seeds;
pub mod sweep;
