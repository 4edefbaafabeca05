//! How can an op be computed?
//!
//! ```
//! use wgoose_kernels::Catalogue;
//!
//! let catalogue = Catalogue::embedded();
//! for variant in catalogue.variants("layer_norm") {
//!     println!("{}: {}, {} configurations", variant.name(), variant.idea(), variant.configs().len());
//! }
//! # assert!(!catalogue.variants("layer_norm").is_empty());
//! ```
//!
//! The words of this crate, in reading order:
//!
//! - [`ops`] defines each **op**: maths, CPU reference, tolerance.
//! - An **op instance** ([`Instance`]) is an op of a graph at its place, for one batch: every size, the format of every
//!   matrix, the rows of this dispatch. Instances of one op with the same sizes, formats and bucket of rows share a
//!   **tuning key** ([`plan::TuningKey`]), for which a plan makes one choice.
//! - A **variant** ([`Variant`]) is one way to compute an op: one complete WGSL file. It declares its idea, the device
//!   features that it needs, its grid, what may be chosen (*tunables*) and its legality (`const_assert`).
//!   `kernels-wgsl/README.md` defines the directives.
//! - A **configuration** ([`Config`]) takes one choice of each tunable of a variant.
//! - A **kernel** ([`Kernel`]) is a variant specialised for an instance, a configuration and the limits of a device
//!   ([`Limits`], plain data). The hash of its final text without comments is its identity; its **facts** ([`Facts`])
//!   are from naga's module. A configuration that breaks a constraint gives a [`Refusal`]; a wrong file gives a
//!   [`TextError`].
//! - The **catalogue** ([`Catalogue`]) has every variant of the binary and of a folder, and the **speed heuristics**
//!   ([`Heuristics`]) that it was given: rules that may be overruled, by the vendor of the device.
//! - A **phase** (here a *stage*) is a kernel inside the [megakernel](persistent) of a run of layers.
//! - A **plan** ([`Plan`]) is everything that can be chosen for a device and a model, and nothing that can be derived.
//!
//! Only `wgsl` reads kernel text. No file of this crate knows a device handle.

#![deny(missing_docs)]

mod args;
mod bucket;
mod catalogue;
mod config;
mod facts;
mod hand_over;
mod heuristics;
mod instance;
mod kernel;
mod library;
mod limits;
pub mod matrix_check;
pub mod ops;
mod params;
pub mod persistent;
pub mod plan;
mod precision;
mod precision_class;
pub mod probes;
mod refusal;
pub mod repack;
mod rounding;
pub mod sampling;
mod segment;
mod state_format;
mod variant;
mod wgsl;
mod written_instance;

pub use args::{Arg, Args, Dense, Matrix, UNKNOWN, UNWRITTEN};
pub use bucket::bucket;
pub use catalogue::{Catalogue, Differing, NoSuchVariant};
pub use config::{Config, ConfigError, SpelledConfig};
pub use facts::{Access, Arithmetic, Binding, Element, Facts};
pub use hand_over::HandOver;
pub use heuristics::{Heuristics, HeuristicsError, HeuristicsText};
pub use instance::{Instance, InstanceInput, Knows, Packed};
pub use kernel::{Kernel, KernelHash, dispatch_size};
pub use library::LibraryError;
pub use limits::{Feature, Limits, UnknownFeature};
pub use ops::{Domain, OpKernels};
pub use params::Params;
pub use plan::{DeviceFingerprint, Plan, PlanError};
pub use precision::{Precision, UnknownPrecision};
pub use precision_class::{PrecisionClass, UnknownClass};
pub use refusal::{KernelError, Refusal};
pub use segment::Segment;
pub use state_format::{StateFormat, UnknownStateFormat};
pub use variant::Variant;
pub use wgsl::{FolderError, LineOrigins, TextError};
