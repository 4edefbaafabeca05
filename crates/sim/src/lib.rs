//! How good is a search, on devices whose truth is known?
//!
//! ```
//! use wgoose_sim::{ReplayRunner, recorded};
//!
//! // The ledger of a real search answers in place of its GPU.
//! let runner = ReplayRunner::new(&recorded());
//! assert!(runner.missing().is_empty());
//! ```
//!
//! Simulated devices ([`SimulatedRunner`]) and recorded ones ([`ReplayRunner`]) run the jobs of a search without a GPU,
//! in milliseconds. In reading order: `synthetic` with its `truth`, `optimum` and `devices`, then `replay` and
//! `recorded`. For development only: no program links this crate.

#![deny(missing_docs)]

mod recorded;
mod replay;
mod synthetic;

pub use recorded::{recorded, shipped};
pub use replay::ReplayRunner;
pub use synthetic::{
    Costs, SimulatedDevice, SimulatedRunner, limits_of_integrated, limits_of_software, simulated_problem, with_limits,
};
