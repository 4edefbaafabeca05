//! A plan that runs a scenario over and over, always from the same beginning.

use crate::drive::{Chooser, Drive, Sequences, WeightsAtStart};
use crate::scenario::Scenario;
use crate::stats::summary::median;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_runtime::{
    Batch, Continuation, Engine, Executor, GpuExecutor, IN_FLIGHT, Outputs, PersistentStatus, RuntimeError, Sampling,
    Sequence, Start,
};

/// Fewest tokens that a sample of decoding writes, unless one takes as long as a sample to choose by.
const FEWEST_TOKENS: u32 = 4;

/// Nanoseconds of a sample of decoding to choose by.
const CHOICE_NS: f64 = 50e6;

/// Two samples that differ by no more tell that a plan is warm.
const STEADY: f64 = 0.03;

/// Samples of a warm-up after which it ends, however these differ.
const MOST_WARM_UP: usize = 5;

/// Nanoseconds of a warm-up after which it ends, however few samples these were: caches and clocks are warm by then.
const LONG_WARM_UP_NS: f64 = 500e6;

/// Most parts of a sample.
const MOST_PARTS: u32 = 4;

/// What samples are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To choose: ratios matter. Of the parts of a sample the fastest counts: what a busy machine adds comes a few
    /// milliseconds at a time, to one part and not to the next, and to either plan alike.
    Choice,
    /// To be reported: people should see the same when they measure. The first tokens of a sample, which wait for no
    /// other, weigh less. The median counts of short prompts, as in `wgoose bench`, and of steps that take long: the
    /// first finds the caches full of what another plan has left there, and a busy machine holds up one or two. A
    /// warm-up lasts as long as that of `wgoose bench`.
    Report,
}

impl Purpose {
    /// Steps of a sample where one takes so many nanoseconds: tokens to write, or how often a prompt of more than one
    /// is read.
    fn steps(self, tokens: u32, ns: f64) -> u32 {
        // What a sample should take, in nanoseconds, and the fewest and most steps.
        let (sample_ns, fewest, most) = match (tokens, self) {
            (1, Purpose::Choice) if ns >= CHOICE_NS => (CHOICE_NS, 1, 1),
            (1, Purpose::Choice) => (CHOICE_NS, FEWEST_TOKENS, 32),
            (1, Purpose::Report) => (100e6, FEWEST_TOKENS, 64),
            (_, Purpose::Choice) => (12.5e6, 1, MOST_PARTS),
            (_, Purpose::Report) => (25e6, 1, 8),
        };
        ((sample_ns / ns.max(1.0)).ceil() as u32).clamp(fewest, most)
    }

    /// Parts of a sample of so many steps.
    fn parts(self, tokens: u32, steps: u32) -> u32 {
        match (tokens, self) {
            // A step that takes so long that few make a sample is a part.
            (1, _) if steps <= FEWEST_TOKENS => steps,
            (1, Purpose::Choice) => (steps / FEWEST_TOKENS).clamp(1, MOST_PARTS),
            (1, Purpose::Report) => 1,
            _ => steps,
        }
    }

    /// What counts of the parts of a sample.
    fn of_parts(self, parts: &[f64]) -> f64 {
        match self {
            Purpose::Choice => parts.iter().copied().fold(f64::INFINITY, f64::min),
            Purpose::Report => median(parts).unwrap_or(f64::INFINITY),
        }
    }

    /// Nanoseconds that a warm-up takes in any case.
    fn warm_up_ns(self) -> f64 {
        if self == Purpose::Choice { 0.0 } else { 250e6 }
    }
}

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
        let read = |slot: u32| (0..scenario.tokens).map(|t| ((t + slot) * 7919 + 13) % vocab).collect();
        let tokens = (0..scenario.sequences).map(read).collect();
        let is_persistent = executor.plan().persistent.is_some() && scenario == Scenario::DECODE;
        let steps = if scenario.tokens == 1 { FEWEST_TOKENS } else { 1 };
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

    /// Runs until two samples agree, and for as long as the purpose wants; nanoseconds of a step. `None`: it is over
    /// before.
    pub(super) fn warm_up(&mut self, purpose: Purpose, is_over: &dyn Fn() -> bool) -> Result<Option<f64>, StepError> {
        let begun = Instant::now();
        let mut before = self.sample()?;
        for taken in 2.. {
            if is_over() {
                return Ok(None);
            }
            if begun.elapsed().as_nanos() as f64 >= LONG_WARM_UP_NS.max(purpose.warm_up_ns()) {
                break;
            }
            let ns = self.sample()?;
            let is_steady = (ns - before).abs() <= STEADY * before;
            before = ns;
            if (is_steady || taken >= MOST_WARM_UP) && begun.elapsed().as_nanos() as f64 >= purpose.warm_up_ns() {
                break;
            }
        }
        Ok(Some(before))
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
        engine.reset(0..slots)?;
        // As in `wgoose bench`: what clears the states is no part of a prompt.
        engine.settle()?;
        let begun = Instant::now();
        for (i, tokens) in self.tokens.chunks(together).enumerate() {
            let first = i * together;
            match (self.scenario.tokens, self.drive.chooser) {
                (1, Chooser::Device) if engine.can_decode() => {
                    let in_flight = self.drive.in_flight.map_or(IN_FLIGHT, NonZeroUsize::get);
                    let must_persist = is_warm && self.is_persistent;
                    decode(engine, first, tokens, (self.steps, in_flight), must_persist)?;
                }
                (1, _) => choose_on_host(engine, first, tokens, self.steps)?,
                _ => {
                    engine.forward(&sequences(first, tokens))?;
                }
            }
        }
        Ok(begun.elapsed().as_nanos() as f64 / f64::from(self.steps))
    }
}

/// What sequences from that slot on read, with their last logits.
fn sequences(first: usize, tokens: &[Vec<u32>]) -> Vec<Sequence<'_>> {
    let sequence = |(i, tokens)| Sequence { slot: first + i, tokens: Vec::as_slice(tokens), outputs: Outputs::Last };
    tokens.iter().enumerate().map(sequence).collect()
}

/// Decodes so many steps; the first call may upload weights, dispatch by dispatch, and need not be persistent.
fn decode(
    engine: &mut Engine,
    first: usize,
    tokens: &[Vec<u32>],
    (steps, in_flight): (u32, usize),
    must_persist: bool,
) -> Result<(), StepError> {
    let start: Vec<u32> = tokens.iter().flatten().copied().collect();
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let (bias, chosen, stops) = (&[][..], &[][..], &[][..]);
    let on = |i| Continuation { slot: first + i, sampling, bias, chosen, stops, max_tokens: steps };
    let sequences: Vec<Continuation<'_>> = (0..start.len()).map(on).collect();
    let report = engine.decode(Start::Tokens(&start), &sequences, in_flight, &mut |_| ControlFlow::Continue(()))?;
    if must_persist && (report.timed_out || report.persistent < report.rounds) {
        return Err(StepError::NotPersistent(match engine.report().persistent {
            Some(PersistentStatus::Refused(why)) => why.to_string(),
            _ => format!("{} of {} steps did", report.persistent, report.rounds),
        }));
    }
    Ok(())
}

/// The same with logits that come back and tokens that go there.
fn choose_on_host(engine: &mut Engine, first: usize, tokens: &[Vec<u32>], steps: u32) -> Result<(), StepError> {
    let mut tokens = tokens.to_vec();
    for _ in 0..steps {
        let logits = engine.forward(&sequences(first, &tokens))?;
        for (row, next) in logits.iter().zip(&mut tokens) {
            let likeliest = row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            *next = vec![likeliest.map_or(0, |(id, _)| id as u32)];
        }
    }
    Ok(())
}

/// Nanoseconds of a pass that finds no weight on the device.
fn start(executor: &mut GpuExecutor, tokens: &[Vec<u32>], weights: WeightsAtStart) -> Result<f64, StepError> {
    executor.reset(0..tokens.len())?;
    executor.drop_weights();
    let batch = Batch::pack(&sequences(0, tokens), executor.shape().vocab, tokens.len()).map_err(RuntimeError::from)?;
    let begun = Instant::now();
    if weights == WeightsAtStart::Eager {
        executor.prepare(&batch.shape())?;
    }
    executor.run(&batch)?;
    Ok(begun.elapsed().as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_times_are_sampled_for_longer() {
        let steps = |tokens, ms: f64| [Purpose::Choice, Purpose::Report].map(|purpose| purpose.steps(tokens, ms * 1e6));
        assert_eq!([0.1, 2.0, 5.0, 400.0].map(|ms| steps(1, ms)), [[32, 64], [25, 50], [10, 20], [1, 4]]);
        assert_eq!([0.1, 5.0, 12.0, 400.0].map(|ms| steps(32, ms)), [[4, 8], [3, 5], [2, 3], [1, 1]]);
        let parts = |tokens, steps| [Purpose::Choice, Purpose::Report].map(|purpose| purpose.parts(tokens, steps));
        assert_eq!([4, 10, 32].map(|steps| parts(1, steps)), [[4, 4], [2, 1], [4, 1]]);
        assert_eq!(parts(32, 3), [3, 3]);
        // The second is held up.
        let counts = [Purpose::Choice, Purpose::Report].map(|purpose| purpose.of_parts(&[3.0, 9.0, 2.0]));
        assert_eq!(counts, [2.0, 3.0]);
    }
}
