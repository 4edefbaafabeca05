//! Doubt as arithmetic: what timings say, and how sure they are. Pure functions; no clock, no GPU, same seed same
//! answer.
//!
//! One comparison reads top to bottom: warm up to a plateau ([`warmup`]), time two in A B B A pairs ([`schedule`]),
//! doubt blocks in which the machine itself changed (`drift`), bound the ratio of the pairs (`bootstrap`), say one of
//! four words (`verdict`), as soon as enough is known (`sequential`), report the raw samples' shape ([`summary`]). Many
//! together say what each of their parts is worth (`linear`).

mod bootstrap;
pub mod drift;
pub mod linear;
pub mod rng;
pub mod schedule;
pub mod sequential;
pub mod summary;
pub mod verdict;
pub mod warmup;

pub use bootstrap::{Bootstrap, Interval};
pub use summary::Summary;
pub use verdict::{Comparison, Criteria, PairError, Verdict, compare};
