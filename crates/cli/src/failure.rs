//! What a command returns when it fails, and how the program ends then.

use crate::signals;
use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;
use wgoose_session::one_line;

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

/// Says what went wrong, if anything did.
pub(crate) fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough: `wgoose graph ... | head`.
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("wgoose: {}", one_line(e.as_ref()));
            if e.is::<Interrupted>() { ExitCode::from(signals::exit_code()) } else { ExitCode::FAILURE }
        }
    }
}
