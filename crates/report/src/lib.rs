//! What a ledger says, for people: gathered as plain data ([`Report`]), then drawn as one HTML file ([`page`]).
//!
//! An experiment is one picture ([`picture`]); [`t4`] writes what other tuners read.
//!
//! A ledger may come from anyone: nothing of it is trusted to be short, finite or free of markup.

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
pub use course::{Attempt, ControlVisit, Course, Progress};
pub use drawing::{Anchor, Axis, Drawing, WIDTH, standalone};
pub use experiment::picture;
pub use failures::Failed;
pub use gather::Report;
pub use heat::{Cell, HeatMap};
pub use left_out::{LeftOut, Refusals};
pub(crate) use numbers::utc;
pub use page::{Source, page};
pub use point::Point;
pub use roof::Ceiling;
pub use sites::{Compared, Site};
pub use view::{Decided, Searched, Subject};
