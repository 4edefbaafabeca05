//! Searches, on simulated and recorded devices.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod made_up;
mod search;
mod seeds;
mod short;
mod slow;
mod sweep;
