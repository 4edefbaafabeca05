//! Where jobs run, and time passes: a GPU, or something that answers as one would.

mod child;
mod gpu;
mod kernels;
mod plans;
mod pulse;
mod runs;
#[cfg(test)]
mod verdicts;

pub use child::{ChildCommand, ChildError, ChildRunner, ChildSetup, Deadlines, replay, serve};
pub use gpu::{GpuRunner, SWEEP_SEED};
pub use kernels::KernelRunner;

use crate::job::{Configured, Cost, Job, Plans};
use crate::ledger::{Clock, Outcome};
use crate::paired::Effort;
use crate::quality::QualityError;
use crate::space::InstanceGroup;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use wgoose_kernels::{KernelError, PlanError};
use wgoose_runtime::RuntimeError;

/// A job with what it names.
#[derive(Clone, Copy)]
pub struct Assignment<'a> {
    /// What to do.
    pub job: &'a Job,
    /// Its site, if it has one.
    pub site: Option<&'a InstanceGroup>,
    /// The contents of its plans, among others.
    pub plans: &'a Plans,
    /// How a comparison is made.
    pub effort: Effort,
    /// Is told what the job is at, again for each sample of a step.
    pub progress: &'a dyn Fn(Phase),
}

/// What a job is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Operands are made, weights are uploaded, kernels are compiled.
    Compiling,
    /// Kernels run.
    Running,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Compiling => "compiling",
            Phase::Running => "running",
        })
    }
}

/// Where jobs run.
pub trait Runner {
    /// Runs a job. A candidate that fails is an outcome.
    ///
    /// # Errors
    /// Nothing more can be run here.
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError>;

    /// Compiles kernels of a site that will be asked for, on all cores: done, or failed as a whole. One that does not
    /// compile says so when it is asked for.
    ///
    /// # Errors
    /// Nothing more can be run here.
    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError>;

    /// Time that was spent of the budget.
    fn spent(&self) -> Duration;

    /// What kernels are timed with.
    fn clock(&self) -> Clock;

    /// Is told of a job that an earlier sweep has run, and that is not run again. Where time is that of records, it
    /// passes here, too: a sweep that goes on after a kill then does what it would have done.
    fn pass_over(&mut self, _: &Job) {}

    /// Whether jobs run in another process, so that none can take this one with it: one without an outcome was broken
    /// off.
    fn is_apart(&self) -> bool {
        false
    }

    /// What a fresh process took to begin; `None` where all jobs run in this one, and no start can be timed.
    fn start(&self) -> Option<Duration> {
        None
    }

    /// Why kernels are timed by wall clock, where a device has timestamps that cannot be trusted.
    fn doubt(&self) -> Option<&str> {
        None
    }
}

/// What stops a runner.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The device, beyond one candidate's failure.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A kernel that was asked for cannot be made.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A plan that was asked for cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// The process that runs the trials.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The user wants no more.
    #[error("interrupted")]
    Interrupted,
    /// A job before this one took the device with it.
    #[error("the device is gone: {0}")]
    Gone(String),
    /// It is asked for what it has not.
    #[error("a job names {0}, which this runner does not know")]
    Unknown(String),
}
