//! A plan that runs a scenario over and over, always from the same beginning.

use crate::driver::{self, Begin, Drive, Sequences, WeightsAtStart};
use crate::scenario::Scenario;
use crate::timer::{self, Purpose};
use std::time::Instant;
use wgoose_runtime::{Batch, Engine, Executor, GpuExecutor, PersistentStatus, RuntimeError};

/// What stops a comparison.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// The device or a plan.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The persistent kernel that a plan asks for did not run.
    #[error("the persistent kernel did not run: {0}")]
    NotPersistent(String),
}

/// A plan that runs a scenario over and over.
pub(super) struct Runs {
    runner: Runner,
    scenario: Scenario,
    drive: Drive,
    /// What each sequence reads, or begins with.
    tokens: Vec<Vec<u32>>,
    /// Steps of a part of a sample: tokens that each sequence writes; it reads its prompt once.
    steps: u32,
    /// Parts of a sample.
    parts: u32,
    /// What samples are for.
    purpose: Purpose,
    /// Whether its steps must be persistent kernels.
    is_persistent: bool,
    /// Whether it has run.
    is_warm: bool,
}

/// What runs it.
enum Runner {
    /// As people do.
    Engine(Engine),
    /// One that can be made to drop its weights.
    Starting(Box<GpuExecutor>),
}

impl Runs {
    pub(super) fn new(mut executor: GpuExecutor, scenario: Scenario, drive: Drive) -> Self {
        let vocab = executor.shape().vocab;
        let tokens = driver::prompts(scenario.sequences as usize, scenario.tokens as usize, vocab);
        let is_persistent = executor.plan().persistent.is_some() && scenario == Scenario::DECODE;
        let steps = if scenario.tokens == 1 { timer::FEWEST_WRITTEN } else { 1 };
        if let Some(submissions) = drive.submissions {
            executor.submit_in(submissions);
        }
        let chunk = executor.plan().prefill_chunk as usize;
        let runner = match drive.weights {
            WeightsAtStart::There => Runner::Engine(Engine::new(Box::new(executor), chunk)),
            WeightsAtStart::Lazy | WeightsAtStart::Eager => Runner::Starting(Box::new(executor)),
        };
        let purpose = Purpose::Choice;
        Runs { runner, scenario, drive, tokens, steps, parts: 1, purpose, is_persistent, is_warm: false }
    }

    pub(super) fn scenario(&self) -> Scenario {
        self.scenario
    }

    /// From now on a sample takes so many steps.
    pub(super) fn take_steps(&mut self, steps: u32, purpose: Purpose) {
        self.purpose = purpose;
        self.parts = purpose.parts(self.scenario.tokens, steps);
        self.steps = steps / self.parts;
    }

    /// How many steps of that length make a sample long enough.
    pub(super) fn steps_for(&self, ns: f64, purpose: Purpose) -> u32 {
        match &self.runner {
            Runner::Engine(_) => purpose.steps(self.scenario.tokens, ns),
            Runner::Starting(_) => 1,
        }
    }

    /// Runs until it is warm, by whole samples for what is reported; nanoseconds of a step. `None`: it is over before.
    pub(super) fn warm_up(&mut self, purpose: Purpose, is_over: &dyn Fn() -> bool) -> Result<Option<f64>, StepError> {
        if purpose == Purpose::Report {
            let ns = self.sample()?;
            self.take_steps(self.steps_for(ns, purpose), purpose);
        }
        let warm = timer::warm_up(purpose, &mut |n| match n > 1 && is_over() {
            true => Err(None),
            false => {
                let begun = Instant::now();
                let ns = self.sample().map_err(Some)?;
                Ok((ns, begun.elapsed().as_nanos() as f64))
            }
        });
        match warm {
            Ok(warm) => Ok(Some(warm.last_ns)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// Wall-clock nanoseconds of a step, in that part of a sample which counts.
    pub(super) fn sample(&mut self) -> Result<f64, StepError> {
        let parts: Vec<f64> = (0..self.parts).map(|_| self.part()).collect::<Result<_, _>>()?;
        Ok(self.purpose.of_parts(&parts))
    }

    fn part(&mut self) -> Result<f64, StepError> {
        let is_warm = std::mem::replace(&mut self.is_warm, true);
        let engine = match &mut self.runner {
            Runner::Engine(engine) => engine,
            Runner::Starting(executor) => return start(executor, &self.tokens, self.drive.weights),
        };
        let slots = self.tokens.len();
        let together = match self.drive.sequences {
            Sequences::Together => slots,
            Sequences::InTurns => 1,
        };
        driver::settle(engine, slots, None)?;
        let mut ns = 0.0;
        for (i, tokens) in self.tokens.chunks(together).enumerate() {
            let first = i * together;
            if self.scenario.tokens > 1 {
                ns += driver::read(engine, first, tokens)?.ns;
                continue;
            }
            let start = tokens.concat();
            let written = driver::write(engine, first, Begin::Tokens(&start), self.steps, &self.drive)?;
            // The first call may upload weights, dispatch by dispatch, and need not be persistent.
            let report = written.report.filter(|_| is_warm && self.is_persistent);
            if let Some(report) = report.filter(|report| report.timed_out || report.persistent < report.rounds) {
                return Err(StepError::NotPersistent(match engine.report().persistent {
                    Some(PersistentStatus::Refused(why)) => why.to_string(),
                    _ => format!("{} of {} steps did", report.persistent, report.rounds),
                }));
            }
            ns += written.ns;
        }
        Ok(ns / f64::from(self.steps))
    }
}

/// Nanoseconds of a pass that finds no weight on the device.
fn start(executor: &mut GpuExecutor, tokens: &[Vec<u32>], weights: WeightsAtStart) -> Result<f64, StepError> {
    executor.reset(0..tokens.len())?;
    executor.drop_weights();
    let batch =
        Batch::pack(&driver::batch(0, tokens), executor.shape().vocab, tokens.len()).map_err(RuntimeError::from)?;
    let begun = Instant::now();
    if weights == WeightsAtStart::Eager {
        executor.prepare(&batch.shape())?;
    }
    executor.run(&batch)?;
    Ok(begun.elapsed().as_nanos() as f64)
}
