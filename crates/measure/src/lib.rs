//! How fast is it, how right, and how sure is that?
//!
//! ```
//! use wgoose_measure::stats::{Criteria, Verdict, compare};
//!
//! let before = [10.1, 10.0, 10.2, 10.1, 10.0, 10.1];
//! let after = [9.1, 9.0, 9.0, 9.2, 9.1, 9.0];
//! let comparison = compare(&before, &after, &Criteria::kernel())?;
//! assert_eq!(comparison.verdict, Verdict::Fast);
//! # Ok::<(), wgoose_measure::stats::PairError>(())
//! ```
//!
//! A [`job`] says what to run, a [`runner`] runs it, a [`ledger`] stores the outcome, and [`stats`] and [`quality`]
//! judge it. In reading order:
//!
//! 1. what is measured: [`scenario`], [`objective`], [`problem`], [`space`], [`seed`], [`driver`];
//! 2. how: [`timer`], [`job`], [`runner`], [`paired`], [`result_cache`];
//! 3. what it says: [`stats`], [`quality`], [`ledger`], and [`derive`](mod@derive), which makes a plan of a ledger;
//! 4. [`experiment`]: arms compared with a baseline, with all of this.

#![deny(missing_docs)]

pub mod derive;
pub mod driver;
pub mod experiment;
pub mod job;
pub mod judge;
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
pub mod timer;
