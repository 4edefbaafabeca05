//! How fast is it, how right, and how sure is that?
//!
//! A [`job`] says what to run, a [`runner`] runs it, a [`ledger`] keeps what came of it, and [`stats`] and [`quality`]
//! say what that means. In reading order:
//!
//! 1. what is measured: [`scenario`], [`objective`], [`problem`], [`space`], [`seed`], [`drive`];
//! 2. how: [`job`], [`runner`], [`paired`], [`result_cache`];
//! 3. what it says: [`stats`], [`quality`], [`ledger`], and [`derive`](mod@derive), which makes a plan of a ledger;
//! 4. [`experiment`]: arms held against a baseline, on all of this.

#![deny(missing_docs)]

pub mod derive;
pub mod drive;
pub mod experiment;
pub mod job;
pub mod ledger;
pub mod objective;
pub mod paired;
pub mod problem;
pub mod quality;
pub mod result_cache;
pub mod runner;
pub mod running;
pub mod scenario;
pub mod seed;
pub mod space;
pub mod stats;
