//! Errors that stop a benchmark.

use wgoose_measure::quality::QualityError;
use wgoose_runtime::RuntimeError;
use wgoose_session::SessionError;

/// What stops a benchmark.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The model, the device or the plan.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The quality reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// The caller ended it while it was told what comes next.
    #[error("stopped before all was measured")]
    Stopped,
    /// Speed of wrong results says nothing.
    #[error("wrong results, not recorded: {0}")]
    Wrong(String),
}

impl From<RuntimeError> for BenchError {
    fn from(error: RuntimeError) -> Self {
        BenchError::Session(error.into())
    }
}
