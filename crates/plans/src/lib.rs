//! Which plan does a model run with?
//!
//! ```
//! let plan = wgoose_plans::shipped().next().ok_or("no plan ships")?.plan()?;
//! println!("{}: {} choices for {}", plan.hash(), plan.choices.len(), plan.device.adapter);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A plan is for one GPU and one *model class* ([`ModelClass`]): models with the same sizes and weight formats. The
//! *store* ([`Store`]) is a folder with the plans that `wgoose tune` filed, one for each; some plans *ship* in the
//! program ([`shipped()`]). [`Place::find`] takes the plan of the store, else the shipped one, else the device's
//! default. A plan whose driver, wgpu or kernels have changed is *stale* ([`Stale`]): its valid part is used.
//!
//! In reading order: `class` and `name` say what a plan is for, `store` and `shipped` have plans, `find` chooses one,
//! `stale` says what of it is valid, `report` says what was chosen and why; `listing` and `compare` are for people.
//! [`catalogue`] has the kernels that plans choose among, with the speed heuristics that are beside the plans.
//!
//! Nothing here knows a device handle or an open model: a device is a fingerprint and limits, a model its class.

#![deny(missing_docs)]

pub mod catalogue;
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
pub use report::{Gain, Origin, PlanReport, Skipped, gain};
pub use shipped::{Shipped, of_maker, shipped};
pub use stale::{Stale, changes_since};
pub use store::{Entry, Store};
