//! What a command returns when it fails, and how the program ends then.

use std::error::Error;
use std::io;
use std::process::ExitCode;

/// Any error; [`exit_code`] prints it in one line.
pub(crate) type Failure = Box<dyn Error>;

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
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text.replace('\n', " ")
}
