//! A runner in another process, which a candidate may take with it: one that never ends is killed, one that crashes is
//! a failure like any other, and the next job finds a fresh process. The device's memory is that process' alone.

mod bundle;
mod process;
mod serve;
mod starts;
mod supervisor;
mod wire;

pub use bundle::replay;
pub use serve::serve;

use super::{Assignment, Phase, Runner, RunnerError};
use crate::job::{Configured, Cost, Job, PlanId};
use crate::ledger::{Clock, Outcome};
use crate::quality::PendingReference;
use crate::space::InstanceGroup;
use bundle::Quarantine;
use serde::{Deserialize, Serialize};
use starts::Starts;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use supervisor::{Ready, Supervisor};
use wgoose_kernels::{Catalogue, DeviceFingerprint, Limits};
use wgoose_runtime::CancelToken;
use wgoose_runtime::{Device, DeviceOptions};
use wire::Request;

/// How to start a process that calls [`serve`].
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// The program.
    pub program: PathBuf,
    /// What comes before the arguments where it is an interpreter: what failed is run again without.
    pub interpreter: Vec<OsString>,
    /// Its arguments, those of `wgoose dev trial`, paths absolute.
    pub arguments: Vec<OsString>,
    /// The folder of kernels that it reads beside its own: passed on as `--kernels`.
    pub kernels: Option<PathBuf>,
    /// How long parts of a job may take.
    pub deadlines: Deadlines,
}

impl ChildCommand {
    /// A program that runs the trials of a model on a device that was opened with those options; the reference lies in
    /// a folder.
    ///
    /// # Errors
    /// There is no current folder, to which paths are relative.
    pub fn new(
        program: PathBuf,
        model: &Path,
        (device, options): (&Device, &DeviceOptions),
        reference: &Path,
    ) -> io::Result<Self> {
        let named = |name: &str, value: &dyn AsRef<OsStr>| {
            let mut text = OsString::from(name);
            text.push(value.as_ref());
            text
        };
        let multiprocessors = device.limits().multiprocessors.to_string();
        let mut arguments: Vec<OsString> = vec!["dev".into(), "trial".into(), std::path::absolute(model)?.into()];
        arguments.push(named("--reference=", &std::path::absolute(reference)?));
        arguments.push(named("--multiprocessors=", &multiprocessors));
        arguments.extend(options.adapter.iter().map(|adapter| named("--device=", adapter)));
        arguments.push(match &options.cache {
            Some(folder) => named("--cache-dir=", &std::path::absolute(folder)?),
            None => "--no-cache".into(),
        });
        let deadlines = Deadlines::usual(device.is_cpu());
        Ok(ChildCommand { program, interpreter: Vec::new(), arguments, kernels: None, deadlines })
    }
}

/// How long parts of a job may take before its process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// Making operands, uploading weights, compiling.
    pub compile: Duration,
    /// A check, or one sample of a step.
    pub run: Duration,
}

impl Deadlines {
    /// Many times what a candidate takes that is worth its time. A CPU that plays the device has few hundredths of a
    /// GPU's speed.
    pub fn usual(is_cpu: bool) -> Self {
        let [compile, run] = if is_cpu { [1800, 1800] } else { [180, 60] };
        Deadlines { compile: Duration::from_secs(compile), run: Duration::from_secs(run) }
    }

    /// That of a phase.
    pub(crate) fn of(self, phase: Phase) -> Duration {
        match phase {
            Phase::Compiling => self.compile,
            Phase::Running => self.run,
        }
    }
}

/// What is wrong with the process that runs trials, beyond one candidate's failure.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It cannot be started.
    #[error("{program}, which runs the trials, cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("the process that runs the trials ended before it was ready: {why}")]
    Silent {
        /// What it said last.
        why: String,
    },
    /// It has another device.
    #[error("the process that runs the trials has {got}, this one has {want}: name one with --device")]
    OtherDevice {
        /// Its device.
        got: String,
        /// This process' device.
        want: String,
    },
    /// It was asked before it was started.
    #[error("no process runs the trials")]
    NotStarted,
    /// It can run nothing more.
    #[error("the process that runs the trials cannot go on: {why}")]
    Stopped {
        /// Why.
        why: String,
    },
    /// It said something that was not asked for.
    #[error("the process that runs the trials is of another version: end other installations")]
    ReplayCursor,
    /// A message cannot be made, or a bundle's not read.
    #[error("a request cannot be written or read: {0}")]
    Message(serde_json::Error),
    /// A bundle.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a runner in a child process needs of its parent.
pub struct ChildSetup<'a> {
    /// The device that it must have.
    pub device: &'a DeviceFingerprint,
    /// What that can do: kernels are made for it.
    pub limits: &'a Limits,
    /// The variants: the same files as the child's.
    pub catalogue: &'a Arc<Catalogue>,
    /// What is right. The child reads it from the file that this leaves.
    pub reference: Option<PendingReference>,
    /// Where bundles of what failed are kept.
    pub quarantine: PathBuf,
    /// What ends a job early.
    pub cancel: CancelToken,
    /// When the time to spend began.
    pub begun: Instant,
}

/// Runs jobs in a process that can be killed.
pub struct ChildRunner {
    supervisor: Supervisor,
    device: DeviceFingerprint,
    limits: Limits,
    reference: Option<PendingReference>,
    quarantine: Quarantine,
    clock: Clock,
    doubt: Option<String>,
    begun: Instant,
    /// Time that was spent on waiting for the reference.
    waited: Duration,
    starts: Starts,
    /// What a process took to begin.
    start: Duration,
    /// What the process that confirms a plan was begun for.
    confirming: Option<([PlanId; 2], u32)>,
}

impl ChildRunner {
    /// Starts the process.
    ///
    /// # Errors
    /// It cannot be started, ends before it is ready, or has another device.
    pub fn new(command: ChildCommand, setup: ChildSetup<'_>) -> Result<Self, RunnerError> {
        let ChildSetup { device, limits, catalogue, reference, quarantine, cancel, begun } = setup;
        let (device, limits) = (device.clone(), limits.clone());
        let quarantine = Quarantine::new(quarantine, Arc::clone(catalogue));
        let supervisor = Supervisor::new(command, cancel);
        let (clock, doubt) = (Clock::Wall, None);
        let temporary = |source| ChildError::Bundle { path: std::env::temp_dir(), source };
        let (starts, start, confirming) = (Starts::new().map_err(temporary)?, Duration::ZERO, None);
        let mut runner = ChildRunner {
            supervisor,
            device,
            limits,
            reference,
            quarantine,
            clock,
            doubt,
            begun,
            waited: Duration::ZERO,
            starts,
            start,
            confirming,
        };
        let starting = Instant::now();
        let ready = runner.supervisor.start(1)?;
        runner.start = starting.elapsed();
        runner.accept(ready)?;
        Ok(runner)
    }

    /// Takes a fresh process, if it has the same device.
    fn accept(&mut self, ready: Option<Ready>) -> Result<(), ChildError> {
        let Some(Ready { device, limits, clock, doubt }) = ready else { return Ok(()) };
        if device != self.device || limits != self.limits {
            let name = |device: &DeviceFingerprint| format!("{}, {}", device.adapter, device.driver);
            return Err(ChildError::OtherDevice { got: name(&device), want: name(&self.device) });
        }
        (self.clock, self.doubt) = (clock, doubt);
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> Result<(Outcome, Cost), RunnerError> {
        let begun = Instant::now();
        let ready = self.supervisor.restart()?;
        self.accept(ready)?;
        let started = begun.elapsed().as_secs_f64();
        let answer = self.supervisor.ask(request)?;
        if let Outcome::Failed(reason) = &answer.outcome {
            let (device, command) = ((&self.device, &self.limits), self.supervisor.command());
            self.quarantine.keep(request, reason, &answer.said, device, command)?;
        }
        Ok((answer.outcome, Cost { compile: answer.cost.compile + started, ..answer.cost }))
    }

    /// Has a process that has run nothing but what confirms those plans, if that is the job.
    fn begin_afresh(&mut self, job: &Job) {
        let confirming = match job {
            Job::Confirm { plans, process, .. } => Some((plans.clone(), *process)),
            _ => None,
        };
        if confirming.is_some() && confirming != self.confirming {
            self.supervisor.stop();
        }
        self.confirming = confirming;
    }

    /// Waits until the reference lies in its file; seconds.
    fn wait_for_reference(&mut self) -> Result<f64, RunnerError> {
        let begun = Instant::now();
        if let Some(reference) = &mut self.reference {
            while !reference.is_known() {
                if self.supervisor.cancel().is_cancelled() {
                    return Err(RunnerError::Interrupted);
                }
                thread::sleep(Duration::from_millis(20));
            }
            reference.get()?;
        }
        let waited = begun.elapsed();
        self.waited += waited;
        Ok(waited.as_secs_f64())
    }
}

impl Runner for ChildRunner {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        let Assignment { job, site, plans, effort, .. } = assignment;
        let waited = match job {
            Job::Gate { .. } | Job::ExtendedGate { .. } => self.wait_for_reference()?,
            _ => 0.0,
        };
        self.begin_afresh(job);
        let contents = |id| plans.get(id).cloned().ok_or_else(|| RunnerError::Unknown(format!("plan {id}")));
        let plans = job.plans().iter().map(contents).collect::<Result<Vec<_>, _>>()?;
        if let (Job::Confirm { scenario, .. }, [a, b]) = (job, &plans[..])
            && scenario.from_start
        {
            let begun = Instant::now();
            let outcome = self.starts.pair(&mut self.supervisor, [a, b], *scenario, effort)?;
            return Ok((outcome, Cost { timed: begun.elapsed().as_secs_f64(), ..Cost::default() }));
        }
        let request = Request::Run { job: Box::new(job.clone()), site: site.cloned().map(Box::new), plans, effort };
        let (outcome, cost) = self.ask(&request)?;
        Ok((outcome, Cost { waited, ..cost }))
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.ask(&Request::CompileAhead { site: Box::new(site.clone()), kernels: kernels.to_vec() })
    }

    fn spent(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.waited)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn is_apart(&self) -> bool {
        true
    }

    fn start(&self) -> Option<Duration> {
        Some(self.start)
    }

    fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }
}
