//! Keeps a process that runs trials, and starts another one where a trial has taken it.

use super::process::{Process, Received};
use super::wire::{Reply, Request};
use super::{ChildCommand, ChildError};
use crate::job::Cost;
use crate::ledger::{Cause, Clock, Outcome, Reason};
use crate::runner::{Phase, RunnerError};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use wgoose_kernels::{DeviceFingerprint, Limits};
use wgoose_runtime::CancelToken;

/// How long a process may take to open the device and the model.
const START: Duration = Duration::from_secs(300);

/// Starts of a fresh process, where one has died: a driver that is reset refuses for a while.
const STARTS: usize = 5;

/// Between two of them.
const PAUSE: Duration = Duration::from_secs(1);

/// What a process says of itself.
pub(super) struct Ready {
    /// Its device.
    pub(super) device: DeviceFingerprint,
    /// What that can do.
    pub(super) limits: Limits,
    /// What kernels are timed with.
    pub(super) clock: Clock,
    /// Why it is not the device's.
    pub(super) doubt: Option<String>,
}

/// What came of a request.
pub(super) struct Answer {
    /// That.
    pub(super) outcome: Outcome,
    /// What it took.
    pub(super) cost: Cost,
    /// What a process that is no more said on stderr last.
    pub(super) said: Vec<String>,
}

/// Asks one process after another.
pub(super) struct Supervisor {
    command: ChildCommand,
    cancel: CancelToken,
    process: Option<Process>,
}

impl Supervisor {
    /// One that has not started a process yet.
    pub(super) fn new(command: ChildCommand, cancel: CancelToken) -> Self {
        Supervisor { command, cancel, process: None }
    }

    pub(super) fn command(&self) -> &ChildCommand {
        &self.command
    }

    pub(super) fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// Starts a process if there is none; what it says of itself.
    ///
    /// # Errors
    /// It cannot be started, or ends before it is ready; the user interrupts.
    pub(super) fn start(&mut self, starts: usize) -> Result<Option<Ready>, RunnerError> {
        let mut starts = starts.max(1);
        while self.process.is_none() {
            starts -= 1;
            match self.try_start() {
                Ok((process, ready)) => {
                    self.process = Some(process);
                    return Ok(Some(ready));
                }
                Err(RunnerError::Child(ChildError::Silent { .. })) if starts > 0 => std::thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// As [`Supervisor::start`], after a process has died.
    ///
    /// # Errors
    /// As there.
    pub(super) fn restart(&mut self) -> Result<Option<Ready>, RunnerError> {
        self.start(STARTS)
    }

    /// Ends the process, if there is one.
    pub(super) fn stop(&mut self) {
        self.process = None;
    }

    /// Nanoseconds from the start of a process until its first token is chosen, or why it never was.
    ///
    /// # Errors
    /// It cannot be started, or the user interrupts.
    pub(super) fn time_start(&self, plan: &Path, tokens: u32) -> Result<Result<f64, Reason>, RunnerError> {
        let begun = Instant::now();
        let process = self.spawn(&Request::Start { plan: plan.to_owned(), tokens })?;
        let received = process.receive(begun + self.command.deadlines.compile, &self.cancel);
        let ns = begun.elapsed().as_nanos() as f64;
        let cause = match received {
            Received::Reply(Reply::Started) => {
                process.finish(begun + self.command.deadlines.compile, &self.cancel);
                return Ok(Ok(ns));
            }
            Received::Interrupted => return Err(RunnerError::Interrupted),
            Received::Reply(_) => return Err(ChildError::ReplayCursor.into()),
            Received::Late => Cause::Timeout,
            Received::Closed => Cause::Crash,
        };
        let (status, said) = process.end();
        Ok(Err(Reason { cause, text: died(Phase::Compiling, status, &said) }))
    }

    /// A process that is asked for something at once.
    fn spawn(&self, first: &Request) -> Result<Process, ChildError> {
        let mut command = Command::new(&self.command.program);
        command.args(&self.command.interpreter).args(&self.command.arguments);
        if let Some(folder) = &self.command.kernels {
            command.arg("--kernels").arg(folder);
        }
        let program = || self.command.program.display().to_string();
        let mut process = Process::start(command).map_err(|source| ChildError::Start { program: program(), source })?;
        process.send(first).map_err(ChildError::Message)?;
        Ok(process)
    }

    fn try_start(&self) -> Result<(Process, Ready), RunnerError> {
        let process = self.spawn(&Request::Open)?;
        match process.receive(Instant::now() + START, &self.cancel) {
            Received::Reply(Reply::Ready { device, limits, clock, doubt }) => {
                Ok((process, Ready { device, limits: *limits, clock, doubt }))
            }
            Received::Interrupted => Err(RunnerError::Interrupted),
            Received::Reply(_) | Received::Late | Received::Closed => {
                let (status, said) = process.end();
                let last = said.iter().rfind(|line| !line.is_empty()).cloned();
                Err(ChildError::Silent { why: last.unwrap_or_else(|| ended(status)) }.into())
            }
        }
    }

    /// Has a request done. A process that does not end in time is killed; one that has died is a failure of what was
    /// asked for.
    ///
    /// # Errors
    /// There is no process and none can be started, nothing more can be run, or the user interrupts.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, RunnerError> {
        let begun = Instant::now();
        let mut process = self.process.take().ok_or(ChildError::NotStarted)?;
        process.send(request).map_err(ChildError::Message)?;
        let mut phase = Phase::Compiling;
        let mut until = begun + self.command.deadlines.of(phase);
        loop {
            let (cause, text) = match process.receive(until, &self.cancel) {
                Received::Reply(Reply::Phase { phase: next }) => {
                    phase = next;
                    until = Instant::now() + self.command.deadlines.of(phase);
                    continue;
                }
                Received::Reply(Reply::Ended { outcome, cost }) => {
                    let said = if leaves_a_sound_device(&outcome) {
                        self.process = Some(process);
                        Vec::new()
                    } else {
                        process.end().1
                    };
                    return Ok(Answer { outcome: *outcome, cost, said });
                }
                Received::Reply(Reply::Stopped { why }) => return Err(ChildError::Stopped { why }.into()),
                Received::Reply(Reply::Ready { .. } | Reply::Started) => return Err(ChildError::ReplayCursor.into()),
                Received::Interrupted => return Err(RunnerError::Interrupted),
                Received::Late => {
                    let seconds = self.command.deadlines.of(phase).as_secs_f64();
                    (Cause::Timeout, format!("{phase} did not end within {seconds} s, its process was killed"))
                }
                Received::Closed => (Cause::Crash, String::new()),
            };
            let (status, said) = process.end();
            let text = match cause {
                Cause::Crash => died(phase, status, &said),
                _ => text,
            };
            let seconds = begun.elapsed().as_secs_f64();
            let cost = match phase {
                Phase::Compiling => Cost { compile: seconds, ..Cost::default() },
                Phase::Running => Cost { timed: seconds, ..Cost::default() },
            };
            return Ok(Answer { outcome: Outcome::failed(cause, text), cost, said });
        }
    }
}

/// Whether other jobs can go on where this came of one.
fn leaves_a_sound_device(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(reason) => {
            !matches!(reason.cause, Cause::DeviceLost | Cause::Timeout | Cause::OutOfMemory | Cause::Runtime)
        }
        _ => true,
    }
}

/// How a process died, for people.
fn died(phase: Phase, status: Option<ExitStatus>, said: &[String]) -> String {
    let last = said.iter().rfind(|line| !line.is_empty()).map_or_else(String::new, |line| format!(": {line}"));
    format!("{phase} ended its process ({}){last}", ended(status))
}

fn ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "nobody knows how".to_owned(), |status| status.to_string())
}
