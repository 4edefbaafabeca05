//! Measures whole sessions the way their users meet them; the command-line tool and the Python package report it.

mod decode;
mod error;
mod measure;
pub mod process_memory;
mod progress;
mod record;
mod start;
mod subject;
mod timed;
pub mod workload;

pub use error::BenchError;
pub use measure::{Load, measure};
pub use progress::{Progress, Watch};
pub use record::{Record, RecordError, Records, saved};
pub use start::first_token;
pub use subject::{Configured, Subject};
pub use timed::{Saved, SavedRow, Timed};

use std::time::Instant;

/// A prompt of that many tokens, always the same.
pub fn prompt(tokens: u32, vocab: u32) -> Vec<u32> {
    (0..tokens).map(|t| ((u64::from(t) * 7919 + 13) % u64::from(vocab)) as u32).collect()
}

/// Milliseconds since then.
fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
