//! How fast is what people do with a model?
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use wgoose_bench::Subject;
//! use wgoose_bench::workload::{Jobs, measure};
//! use wgoose_measure::timer::AtLeast;
//! use wgoose_session::{Backend, Session};
//!
//! let subject = Subject { builder: Session::builder(), backend: Backend::Gpu, chunk: None };
//! let jobs = Jobs {
//!     workloads: Vec::new(),
//!     prompts: vec![512],
//!     packed: Vec::new(),
//!     decodes: vec![1, 32],
//!     decode_tokens: 128,
//!     at_least: AtLeast { runs: 6, ms: 1000.0 },
//! };
//! let report = measure("model.gguf".as_ref(), &subject, &jobs, &mut |_| ControlFlow::Continue(()))?;
//! for row in report.rows {
//!     println!("{}: {:.2} ms", row.what, row.ms.median);
//! }
//! # Ok::<(), wgoose_bench::BenchError>(())
//! ```
//!
//! All times are samples of `wgoose_measure::timer`. In reading order: `subject` is what is measured, [`workload`] has
//! named workloads, prefill and decode, `measure` whole sessions by title; `record` stores them, `timed` reads both
//! kinds of records, [`process_memory`] and `start` are for fresh processes, [`server_load`] is for HTTP servers. The
//! command line and the Python package print the results.

mod error;
mod measure;
pub mod process_memory;
mod progress;
mod record;
pub mod server_load;
mod start;
mod subject;
mod timed;
pub mod workload;

pub use error::BenchError;
pub use measure::{Load, measure};
pub use progress::{BenchProgress, Watch};
pub use record::{BenchRecord, RecordError, Records, saved};
pub use start::first_token;
pub use subject::{ConfiguredEngine, Subject};
pub use timed::{Saved, SavedRow, Timed};

use std::time::Instant;

/// Milliseconds since then.
fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
