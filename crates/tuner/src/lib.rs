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
//! instance, [`arms`] kernels for the arms of an experiment; [`seeds`] are configurations to try first.
//!
//! Within a sweep a *strategy* (`sweep/strategies/`, a page each) says which *stages* run, in which order:
//!
//! | strategy | how it searches |
//! |---|---|
//! | `staged` | structure, then a megakernel, then single kernels; where steps are slow, as `incremental` |
//! | `incremental` | one move after the other, the one that should gain the most in a second first |
//! | `random` | plans that are drawn, each as likely as the next: the baseline |
//!
//! A *stage* (`sweep/stages/`) is a function of results and time to a plan or a part of one: the incumbent, the
//! structure, the gates, the megakernel, the kernels, the layouts, the moves, the confirmation. It owns what it
//! remembers, and runs jobs through `sweep/trials.rs` alone.

#![deny(missing_docs)]

pub mod arms;
pub mod kernel_tuning;
pub mod seeds;
pub mod sweep;
