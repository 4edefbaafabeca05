//! How an op can be computed: WGSL variants, tunables, specialisation, the CPU reference, plans.
//!
//! Knows no device: naga validates and reflects the kernels, limits are plain data. Start with [`ops`].

#![deny(missing_docs)]

mod args;
mod constants;
mod kernel;
mod limits;
mod numerics;
pub mod ops;
pub mod persistent;
pub mod plan;
pub mod probes;
mod reflect;
pub mod repack;
pub mod sample;
mod site;
mod source;
mod specialise;
mod tunables;
mod unroll;
mod variant;

pub use args::{Arg, Args, Dense, Matrix, Segment, segments};
pub use kernel::{Kernel, KernelHash, SpecialiseError, dispatch_size};
pub use limits::{Feature, Limits};
pub use numerics::Numerics;
pub use ops::OpKernels;
pub use plan::{DeviceFingerprint, Plan, PlanError};
pub use reflect::{Access, Binding, Element, Reflection, validator};
pub use site::{Site, SiteInput};
pub use source::{File, Sources};
pub use tunables::Tunables;
pub use variant::{Refusal, Variant, refuse_if};
