//! The charts of a report, each with its words beside it.

mod course;
mod gains;
mod heat;
mod strip;

pub(super) use course::{control, progress};
pub use gains::{Gain, gains};
pub(super) use heat::heat;
pub(super) use strip::{MOST_POINTS, MOST_VARIANTS, strip};
