//! Which plan to try next: the search. Start with [`sweep`](sweep::sweep).
//!
//! It asks `wgoose-measure` for jobs until its budget is spent, and knows no device and no clock. [`kernel_tuning`]
//! finds the fastest kernel of one kind of op instance, [`sweep`] the fastest plan, [`arms`] kernels for the arms of an
//! experiment.

#![deny(missing_docs)]

pub mod arms;
pub mod kernel_tuning;
pub mod seeds;
mod structure;
pub mod sweep;
