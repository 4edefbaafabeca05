//! Experiments: arms, each a plan of a model with kernels, held against a baseline. A declared one says in a file
//! ([`Experiment`]) what is asked, expected and varied; `wgoose compare` makes its arms of options.
//!
//! Each arm goes through the gate, which refuses wrong arms; the others are timed against the baseline in interleaved
//! pairs, by the jobs, the statistics and the ledger of the tuner. The findings ([`Findings`]) are a pure function of
//! the ledger's records, and so are tables and pictures of it.

mod arm;
mod claim;
mod declaration;
mod difference;
mod equal;
mod findings;
mod measure;
mod source;

pub use arm::Arm;
pub use claim::{Answer, Claim};
pub use declaration::{ArmDeclaration, Experiment, ExperimentFileError, Setting, Tuning};
pub use difference::{Difference, DifferenceError, Ground, sites};
pub use findings::{Findings, Found, Timed};
pub use measure::{Doing, ExperimentError, Measuring};
pub use source::{Source, SourceError};
