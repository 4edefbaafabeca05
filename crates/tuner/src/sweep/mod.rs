//! The sweep: from a device and a model to a plan.
//!
//! A [`Strategy`] decides which stages run, and in which order; stages ask the [`Trials`] for results. Neither sees
//! more than results and the time spent. The plan that is found passes the gate and is compared with the device's
//! default plan in all scenarios, in three fresh processes, and by the first tokens of others. Where time is short one
//! process compares them, and prefill with the same kernels in both plans is left out. Choices that are not faster
//! leave the default kernels in place; a plan that is slower in any scenario of a process is dropped.
//!
//! There is one budget, in wall seconds since the command began: each stage must end at its share of it.
//!
//! In reading order: `search` is the whole, `strategies` are the ways to search, `stages` their steps, `trials` runs
//! them. `task` never changes; `changes` are the structural choices of a plan; `ends`, `ending` and `pace` tell how
//! long things take; `forms`, `megakernel_step` and `step_model` what is known of megakernels.

mod changes;
mod ending;
mod ends;
mod error;
mod event;
mod forms;
mod megakernel_step;
mod on_device;
mod options;
mod pace;
mod search;
mod stages;
mod step_model;
mod strategies;
mod strategy;
mod survey;
mod task;
mod trials;

pub use error::SweepError;
pub use event::{Candidate, Event, Listener, Note, Stage, SweepStep, Timed};
pub use on_device::{survey, sweep};
pub use options::{Part, SweepOptions, UnknownPart};
pub use search::{Swept, search};
pub use stages::Worth;
pub use strategies::{STRATEGIES, UnknownStrategy, strategy};
pub use strategy::{Found, Strategy};
pub use survey::time_all;
pub use trials::Trials;
