//! Errors that stop a sweep.

use crate::kernel_tuning::KernelTuningError;
use wgoose_kernels::PlanError;
use wgoose_measure::derive::DeriveError;
use wgoose_measure::ledger::LedgerError;
use wgoose_measure::quality::QualityError;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::runner::RunnerError;

/// What stops a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The runner cannot be set up.
    #[error(transparent)]
    Runner(RunnerError),
    /// A trial.
    #[error(transparent)]
    Trial(TrialError),
    /// The plan at the end.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The kernels.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// Tuning kernels.
    #[error(transparent)]
    Kernels(KernelTuningError),
    /// Chunks or sequences that no pass has.
    #[error("{what} {got}: it must be between {least} and {most}")]
    Size {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        got: u32,
        /// The least that makes sense.
        least: u32,
        /// The most.
        most: u32,
    },
    /// The device computes wrong results whatever is chosen.
    #[error("the default plan fails the quality gate on this device: {0}; nothing is tuned on wrong results")]
    Gate(String),
    /// The listener broke it off, or the user. What was measured until then is in the ledger, and another sweep goes on
    /// from there.
    #[error("the search was stopped; run it again to resume from its ledger")]
    Stopped,
}

impl From<RunnerError> for SweepError {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Interrupted => SweepError::Stopped,
            error => SweepError::Runner(error),
        }
    }
}

impl From<TrialError> for SweepError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Runner(RunnerError::Interrupted) => SweepError::Stopped,
            error => SweepError::Trial(error),
        }
    }
}

impl From<KernelTuningError> for SweepError {
    fn from(error: KernelTuningError) -> Self {
        match error {
            KernelTuningError::Trial(error) => error.into(),
            error => SweepError::Kernels(error),
        }
    }
}
