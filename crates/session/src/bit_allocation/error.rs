//! Why no formats were chosen.

use crate::eval::EvalError;
use crate::{ModelFileError, SessionError};
use wgoose_loader::convert::ConvertError;

/// Why [`allocate`](super::allocate) chose nothing.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The file to be read, or the one to be made.
    #[error(transparent)]
    File(#[from] ModelFileError),
    /// A tensor in another format.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A model, its device or its plan.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The text, or what a model says of it.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// A divergence that no model has.
    #[error("a target of {0} nats a token cannot be reached: expected a number greater than 0, such as 0.005")]
    Target(f64),
    /// Fewer bytes than there can be.
    #[error("{budget} bytes are too few: with every tensor in its smallest format the file has {smallest}")]
    BudgetTooSmall {
        /// Bytes allowed.
        budget: u64,
        /// Bytes of the smallest file.
        smallest: u64,
    },
    /// A divergence below that of the best mix.
    #[error(
        "{target:.2e} nats a token cannot be reached: with every matrix as it is, the file is {least:.2e} from its source"
    )]
    TargetTooSmall {
        /// The divergence asked for.
        target: f64,
        /// That of the best mix.
        least: f64,
    },
    /// The caller ended it.
    #[error("stopped before the formats were chosen: nothing was written")]
    Stopped,
}
