//! Where plans lie, and which of them a model runs with.
//!
//! A plan is for one GPU and one *model class* ([`ModelClass`]): the same sizes and weight formats. The *store*
//! ([`Store`]) is a folder with a plan for each, as `wgoose tune` filed them; a few *ship* in the program
//! ([`shipped()`]). [`Place::find`] takes the store's, else the program's, else the device's default. A plan whose
//! driver, wgpu or kernels have changed is *stale* ([`Stale`]): what of it is safe is used.
//!
//! Nothing here knows a device handle or an open model: a device is a fingerprint and limits, a model its class.

#![deny(missing_docs)]

mod class;
mod compare;
mod date;
mod destination;
mod error;
mod find;
mod listing;
mod name;
mod passes;
mod report;
mod shipped;
mod stale;
mod store;
#[cfg(test)]
mod tests;

pub use class::ModelClass;
pub use compare::{Difference, differences};
pub use date::day;
pub use destination::Destination;
pub use error::StoreError;
pub use find::{Chosen, Place, PlanChoice, likely_fusions};
pub use listing::{Listed, Source, Standing, list, look_up};
pub use name::{class_in_name, plan_name, slug};
pub use report::{Gain, Origin, Report, Skipped, gain};
pub use shipped::{Shipped, of_maker, shipped};
pub use stale::{Stale, changes_since};
pub use store::{Entry, Store};
