//! Progress of a benchmark, for people who wait.

use crate::BenchError;
use std::fmt;
use std::ops::ControlFlow;
use wgoose_measure::timer::{AtLeast, Next, Reported, report};

/// What a benchmark is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchProgress<'a> {
    /// The model and the device are opened.
    Opening,
    /// A run that is not counted; how many there will be is not known.
    WarmUp {
        /// What is measured.
        what: &'a str,
        /// The run, from 1.
        run: usize,
    },
    /// A run that is counted.
    Run {
        /// What is measured.
        what: &'a str,
        /// The run, from 1.
        run: usize,
        /// How many there are.
        of: usize,
    },
    /// The answers are compared with the CPU reference, which is computed or read.
    Checking,
}

impl fmt::Display for BenchProgress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchProgress::Opening => f.write_str("opening"),
            BenchProgress::WarmUp { what, run } => write!(f, "{what}: warm-up, run {run}"),
            BenchProgress::Run { what, run, of } => write!(f, "{what}: run {run} of {of}"),
            BenchProgress::Checking => f.write_str("comparing with the CPU reference"),
        }
    }
}

/// Is told what a benchmark is doing; a break ends it ([`BenchError::Stopped`]).
pub type Watch<'a> = dyn FnMut(BenchProgress<'_>) -> ControlFlow<()> + 'a;

/// Says what comes next, unless the benchmark is to end.
pub(crate) fn say(watch: &mut Watch<'_>, next: BenchProgress<'_>) -> Result<(), BenchError> {
    match watch(next) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BenchError::Stopped),
    }
}

/// Samples of what `run` times, in milliseconds; `watch` is told of each.
pub(crate) fn reported(
    what: &str,
    at_least: AtLeast,
    watch: &mut Watch<'_>,
    run: &mut dyn FnMut() -> Result<Vec<f64>, BenchError>,
) -> Result<Reported, BenchError> {
    let next = &mut |next| {
        say(
            watch,
            match next {
                Next::WarmUp(run) => BenchProgress::WarmUp { what, run },
                Next::Sample { run, of } => BenchProgress::Run { what, run, of },
            },
        )
    };
    report(at_least, next, run)
}
