//! How does a person read a ledger?
//!
//! ```no_run
//! use wgoose_measure::{derive::Policy, ledger, objective::Objective};
//! use wgoose_report::{LedgerReport, page};
//!
//! let (records, _) = ledger::read("plan.jsonl".as_ref())?;
//! let (catalogue, objective) = (wgoose_plans::catalogue::embedded(), Objective::chat(false));
//! let report = LedgerReport::gather(&records, &catalogue, &objective, &Policy::all(), None);
//! std::fs::write("plan.html", page(&report, &[]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LedgerReport`] gathers a ledger as plain data, and [`page`] draws it as one HTML file. [`picture`] draws an
//! experiment, and [`t4`] writes the exchange format of autotuners. In reading order: `gather` with `view`, `sites`,
//! `course`, `failures` and `left_out`, which are its parts; then `page` with `drawing`, `charts`, `heat` and `html`.
//!
//! A ledger may come from anyone: nothing in it is trusted to be short, finite or free of markup.

#![deny(missing_docs)]

mod charts;
mod course;
mod drawing;
mod experiment;
mod failures;
mod gather;
mod heat;
mod html;
mod left_out;
mod numbers;
mod page;
mod point;
mod roof;
mod sites;
pub mod t4;
mod view;

pub use charts::{Gain, gains};
pub use course::{Attempt, ControlVisit, Course, SearchProgress};
pub use drawing::{Anchor, Axis, Drawing, WIDTH, standalone};
pub use experiment::picture;
pub use failures::Failed;
pub use gather::LedgerReport;
pub use heat::{Cell, HeatMap};
pub use left_out::{LeftOut, Refusals};
pub(crate) use numbers::utc;
pub use page::{Source, page};
pub use point::Point;
pub use roof::Ceiling;
pub use sites::{Compared, Site};
pub use view::{Decided, Searched, Subject};
