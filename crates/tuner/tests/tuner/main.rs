//! Searches, on simulated and recorded devices.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod search;
mod seeds;
mod short;
mod simulated;
mod slow;
mod sweep;
mod variants;
