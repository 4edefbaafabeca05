//! Devices that are not there: simulated ones ([`SimulatedRunner`]), and recorded ones, whose ledger answers
//! ([`ReplayRunner`]). A search is held against them without a GPU and in milliseconds. For development only: no
//! program links this crate.

#![deny(missing_docs)]

mod recorded;
mod replay;
mod synthetic;

pub use recorded::{recorded, shipped};
pub use replay::ReplayRunner;
pub use synthetic::{
    Costs, SimulatedDevice, SimulatedRunner, limits_of_integrated, limits_of_software, simulated_problem, with_limits,
};
