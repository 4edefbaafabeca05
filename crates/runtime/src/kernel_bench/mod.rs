//! The kernel bench: one kernel at a time on random data, checked against the reference, then timed.

mod bench;
mod case;
mod check;
mod clock;
pub mod property;
mod repack;
pub mod roofline;
mod sample;
pub mod sanitize;
pub mod upload;

pub use bench::{Bench, Operands, Ran, Timing};
pub use case::{Case, Numbers};
pub use check::{At, Deviation, Expected, bits, check, check_after, is_steady};
pub(crate) use check::{largest_error, packing_error, share};
pub use clock::{Clock, ClockSource};
pub use repack::repack;
pub use roofline::{Ceiling, Impossible, open_measured};
pub use sample::{Samples, sample};
