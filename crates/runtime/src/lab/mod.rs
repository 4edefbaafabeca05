//! The lab: one kernel at a time on data of its own, checked against the reference, then timed.

mod bench;
mod case;
mod check;
mod clock;
mod repack;
pub mod roofline;
mod sample;
pub mod upload;

pub use bench::{Bench, Timing};
pub use case::Case;
pub use check::{Deviation, Expected, check};
pub use clock::{Clock, ClockSource};
pub use repack::{Piece, repack};
pub use sample::{Samples, sample};
