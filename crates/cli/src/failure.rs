//! Errors of commands, and the exit code that each gives.

use crate::signals;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;
use wgoose_measure::judge::Verdict;
use wgoose_runtime::RuntimeError;
use wgoose_session::bit_allocation::AllocationError;
use wgoose_session::{SessionError, one_line};

/// Any error; [`exit_code`] prints it in one line.
pub(crate) type Failure = Box<dyn Error>;

/// The user broke off what was going on, which left this.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) String);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted: {}", self.0)
    }
}

impl Error for Interrupted {}

/// An argument that only the model or the other arguments show to be wrong: clap refuses the others.
#[derive(Debug)]
pub(crate) struct WrongUsage(pub(crate) String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongUsage {}

/// A candidate is judged: the exit code is the verdict's. Without words nothing more is to be said.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) why: String,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Judged {}

/// Whether an argument is to blame, not a file or the device.
fn is_wrong_usage(error: &(dyn Error + 'static)) -> bool {
    let of_session = |error: &SessionError| match error {
        SessionError::SamplerOptions(_) | SessionError::NoEmbeddingHead { .. } => true,
        SessionError::Runtime(why) => {
            matches!(why, RuntimeError::BudgetTooSmall { .. } | RuntimeError::RingTooSmall { .. })
        }
        _ => false,
    };
    let of_allocation =
        |error: &AllocationError| matches!(error, AllocationError::Target(_) | AllocationError::BudgetTooSmall { .. });
    error.is::<WrongUsage>()
        || error.downcast_ref().is_some_and(of_session)
        || error.downcast_ref().is_some_and(of_allocation)
}

/// Says what went wrong, if anything did.
pub(crate) fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough: `wgoose dev graph ... | head`.
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            let is_said = e.downcast_ref::<Judged>().is_some_and(|judged| judged.why.is_empty());
            if !is_said {
                eprintln!("wgoose: {}", one_line(e.as_ref()));
            }
            if let Some(Judged { verdict, .. }) = e.downcast_ref() {
                return ExitCode::from(verdict.exit_code());
            }
            match e.as_ref() {
                e if e.is::<Interrupted>() => ExitCode::from(signals::exit_code()),
                e if is_wrong_usage(e) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
