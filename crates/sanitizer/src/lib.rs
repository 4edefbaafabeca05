//! Finds what is wrong in a WGSL compute shader without a device: what compute-sanitizer is for CUDA.
//!
//! The shader runs on the CPU. Shadow memory keeps who wrote and read every word, and what orders the accesses.
//!
//! ```
//! use wgoose_sanitizer::{Buffer, Dispatch, FindingKind, Shader};
//!
//! let shader = Shader::parse(
//!     "var<workgroup> tile: array<u32, 64>;
//!      @group(0) @binding(0) var<storage, read_write> y: array<u32>;
//!      @compute @workgroup_size(64)
//!      fn main(@builtin(local_invocation_index) tid: u32) {
//!          tile[tid] = tid;
//!          y[tid] = tile[63u - tid]; // no workgroupBarrier() before
//!      }",
//! )?;
//! let report = shader.run(&Dispatch::new([1, 1, 1]).bind(0, Buffer::unwritten(4 * 64)))?;
//! let race = report.findings.iter().find(|finding| finding.kind == FindingKind::Race).unwrap();
//! assert_eq!((race.first.line, race.second.as_ref().unwrap().line), (5, 6));
//! # Ok::<(), wgoose_sanitizer::SanitizerError>(())
//! ```
//!
//! In reading order: `program` is what a shader becomes, `compile` makes it of naga's IR, `run` executes it (`watch`
//! and `clock` are happens-before), `orders` runs it in several orders, `mutation` takes things away from it.

#![deny(missing_docs)]

mod compile;
mod dispatch;
mod error;
mod mutation;
mod orders;
mod program;
mod report;
mod run;
mod scalar;
mod shader;

pub use dispatch::{Buffer, BufferRange, Dispatch, Order};
pub use error::SanitizerError;
pub use mutation::{Mutation, MutationKind};
pub use report::{Access, AccessKind, Finding, FindingKind, Report};
pub use shader::Shader;
