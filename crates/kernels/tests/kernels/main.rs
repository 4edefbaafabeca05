//! Every variant at every configuration, for every op of the model in every weight format, without a GPU.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

mod backends;
mod defaults;
mod files;
mod folder;
mod instances;
mod refusals;
mod stages;
mod validity;
