//! Whole plans on a device: held against the reference, and run over and over in the loop in which people run them.

use crate::ledger::{Gate, Outcome};
use crate::paired::Effort;
use crate::quality::{Quality, QualityError, Reference};
use crate::scenario::Scenario;
use crate::stats::schedule::{Arm, abba};
use crate::stats::sequential::is_decided;
use crate::stats::warmup::{Warmth, Warmup, WarmupRule};
use std::ops::{ControlFlow, RangeInclusive};
use std::time::Instant;
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_runtime::{
    Continuation, Engine, GpuExecutor, IN_FLIGHT, NotPersistent, Outputs, PersistentStatus, RuntimeError, Sampling,
    Sequence, Start,
};

/// Pairs of a comparison, where time allows.
const PAIRS: usize = 40;

/// What a sample of decoding should take, in nanoseconds.
const SAMPLE_NS: f64 = 50e6;

/// Tokens that a sample of decoding writes.
const TOKENS: RangeInclusive<u32> = 4..=32;

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

/// Runs whole plans of one model.
pub(super) struct PlanLab {
    /// Holds the weights and compiled kernels that all plans share.
    pub(super) root: GpuExecutor,
    /// What is right.
    pub(super) reference: Reference,
}

impl PlanLab {
    fn engine(&self, plan: &Plan, slots: usize) -> Result<Engine, RuntimeError> {
        let chunk = plan.prefill_chunk as usize;
        Ok(Engine::new(Box::new(self.root.sharing_weights(plan.clone(), slots)?), chunk))
    }

    /// The quality gate of a plan.
    pub(super) fn gate(&self, plan: &Plan, catalogue: &Catalogue) -> Result<Gate, QualityError> {
        let quality = self.reference.evaluate(&mut self.engine(plan, Reference::SLOTS)?)?;
        Ok(gate_of(&quality, plan.least_precise(catalogue)))
    }

    /// Whether the persistent kernels that a plan asks for work here, or why not.
    pub(super) fn resident(&self, plan: &Plan) -> Result<PersistentStatus, RuntimeError> {
        let mut engine = self.engine(plan, 1)?;
        // The first pass may upload weights, dispatch by dispatch.
        for _ in 0..2 {
            engine.forward(&[Sequence { slot: 0, tokens: &[0], outputs: Outputs::Last }])?;
        }
        let none = || PersistentStatus::Refused(NotPersistent::Streamed);
        Ok(engine.report().persistent.unwrap_or_else(none))
    }

    /// Interleaved samples of two plans.
    pub(super) fn pair(&self, plans: [&Plan; 2], scenario: Scenario, effort: Effort) -> Result<Outcome, StepError> {
        let allowance = effort.allowance;
        let slots = scenario.sequences as usize;
        let arm = |plan: &Plan| Ok::<_, StepError>(Runs::new(self.engine(plan, slots)?, plan, scenario));
        let mut arms = [arm(plans[0])?, arm(plans[1])?];
        let start = Instant::now();
        let mut longest = 0f64;
        for arm in &mut arms {
            // The first sample compiles and uploads.
            arm.sample()?;
            // The floor on the warm-up is in the rule; a comparison of slow steps must not spend its time on it.
            let mut warmup = Warmup::new(WarmupRule::default());
            let begun = Instant::now();
            let ns = loop {
                let ns = arm.sample()?;
                let spent = begun.elapsed() > allowance / 6;
                if warmup.push_part(ns, ns * f64::from(arm.steps)) != Warmth::Warming || spent {
                    break ns;
                }
            };
            longest = longest.max(ns);
        }
        let steps = arms[0].steps_for(longest);
        arms.iter_mut().for_each(|arm| arm.steps = steps);
        let left = allowance.saturating_sub(start.elapsed()).as_nanos() as f64;
        let pairs = ((left / (2.0 * longest * f64::from(steps)).max(1.0)) as usize).clamp(Effort::FEWEST_PAIRS, PAIRS);
        let mut samples_ns = [Vec::new(), Vec::new()];
        for pair in abba(pairs) {
            if is_decided(&samples_ns[0], &samples_ns[1], &effort.criteria()) {
                break;
            }
            for arm in pair {
                let i = usize::from(arm == Arm::Candidate);
                samples_ns[i].push(arms[i].sample()?);
            }
        }
        Ok(Outcome::Pair { samples_ns, repeats: steps, copies: 0 })
    }
}

/// A plan that runs a scenario over and over, always from the same beginning.
struct Runs {
    engine: Engine,
    scenario: Scenario,
    /// What each sequence reads, or begins with.
    tokens: Vec<Vec<u32>>,
    /// Steps of a sample.
    steps: u32,
    /// Whether its steps must be persistent kernels.
    is_persistent: bool,
    /// Whether it has run.
    is_warm: bool,
}

impl Runs {
    fn new(engine: Engine, plan: &Plan, scenario: Scenario) -> Self {
        let vocab = engine.shape().vocab;
        let read = |slot: u32| (0..scenario.tokens).map(|t| ((t + slot) * 7919 + 13) % vocab).collect();
        let tokens = (0..scenario.sequences).map(read).collect();
        let is_persistent = plan.persistent.is_some() && scenario == Scenario::DECODE;
        let steps = if scenario.tokens == 1 { *TOKENS.start() } else { 1 };
        Runs { engine, scenario, tokens, steps, is_persistent, is_warm: false }
    }

    /// How many steps of that length make a sample long enough.
    fn steps_for(&self, ns: f64) -> u32 {
        match self.scenario.tokens {
            1 => ((SAMPLE_NS / ns.max(1.0)).ceil() as u32).clamp(*TOKENS.start(), *TOKENS.end()),
            _ => 1,
        }
    }

    /// Wall-clock nanoseconds of a step.
    fn sample(&mut self) -> Result<f64, StepError> {
        let slots = self.tokens.len();
        self.engine.reset(0..slots)?;
        let is_warm = std::mem::replace(&mut self.is_warm, true);
        if self.scenario.tokens == 1 && self.engine.can_decode() {
            let first: Vec<u32> = self.tokens.iter().flatten().copied().collect();
            let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
            let (steps, bias, chosen, stops) = (self.steps, &[][..], &[][..], &[][..]);
            let on = |slot| Continuation { slot, sampling, bias, chosen, stops, max_tokens: steps };
            let sequences: Vec<Continuation<'_>> = (0..slots).map(on).collect();
            let start = Instant::now();
            let start_with = Start::Tokens(&first);
            let report = self.engine.decode(start_with, &sequences, IN_FLIGHT, &mut |_| ControlFlow::Continue(()))?;
            let ns = start.elapsed().as_nanos() as f64 / f64::from(steps);
            // The first call may upload weights, dispatch by dispatch.
            if is_warm && self.is_persistent && (report.timed_out || report.persistent < report.rounds) {
                return Err(StepError::NotPersistent(match self.engine.report().persistent {
                    Some(PersistentStatus::Refused(why)) => why.to_string(),
                    _ => format!("{} of {} steps did", report.persistent, report.rounds),
                }));
            }
            return Ok(ns);
        }
        let sequence = |(slot, tokens)| Sequence { slot, tokens: Vec::as_slice(tokens), outputs: Outputs::Last };
        let sequences: Vec<Sequence<'_>> = self.tokens.iter().enumerate().map(sequence).collect();
        let start = Instant::now();
        self.engine.forward(&sequences)?;
        Ok(start.elapsed().as_nanos() as f64)
    }
}

fn gate_of(q: &Quality, precision: Precision) -> Gate {
    let (certified, positions) = q.certified;
    let detail = format!(
        "{precision}; {certified} of {positions} positions certified, {} disagree; first tokens rms {:.1e}; KL {:.1e} nats",
        q.disagreements, q.first_rms, q.kl
    );
    Gate { passed: q.passed(precision), rms: q.rms, max: q.max, quality_hash: Some(q.hash.clone()), detail }
}
