//! Devices that are not there: simulated ones ([`SyntheticLab`]), and recorded ones, whose ledger answers ([`ReplayLab`]). A search is
//! held against them without a GPU and in milliseconds. For development only: no program links this crate.

#![deny(missing_docs)]

mod recorded;
mod replay;
mod synthetic;

pub use recorded::{recorded, shipped};
pub use replay::ReplayLab;
pub use synthetic::{Costs, Synthetic, SyntheticLab, limits_of_integrated, limits_of_software, made_up, with_limits};
