//! The sweep: from a device and a model to a plan.
//!
//! A [`Strategy`] decides what is tried, and in which order; it sees outcomes and the time spent, and no device. The
//! plan that it finds passes the gate and is compared with the device's default plan in all scenarios, in three fresh
//! processes, and by the first tokens of others. Where time is short one process compares them, and prefill with the
//! same kernels in both plans is left out. Choices that are not faster leave the default kernels in place; a plan that
//! is slower in any scenario of a process is dropped.
//!
//! There is one budget, in wall seconds since the command began: each stage must end at its share of it.

mod changes;
mod ending;
mod ends;
mod error;
mod event;
mod forms;
mod merged_step;
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
