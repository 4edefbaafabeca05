//! Paired comparisons of whole steps: two plans, one model, real passes, wall clock, interleaved. What decides a plan.

use crate::ledger::{Gate, Identity, LedgerError, Outcome, Subject};
use crate::memo::Memo;
use crate::quality::{Quality, QualityError, Reference};
use crate::stats::schedule::{Arm, abba};
use crate::stats::summary::median;
use crate::stats::verdict::{Comparison, Criteria, Verdict, compare};
use crate::stats::warmup::{Warmth, Warmup, WarmupRule};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_runtime::lab::ClockSource;
use wgoose_runtime::{
    Continuation, Engine, GpuExecutor, IN_FLIGHT, NotPersistent, Outputs, PersistentStatus, RuntimeError, Sampling,
    Sequence, Start,
};

/// Pairs of a comparison, where time allows.
const PAIRS: usize = 40;

/// Fewest pairs that can say anything.
const FEWEST_PAIRS: usize = 6;

/// What a sample of decoding should take, in nanoseconds.
const SAMPLE_NS: f64 = 50e6;

/// Tokens that a sample of decoding writes.
const TOKENS: RangeInclusive<u32> = 4..=32;

/// What is timed: what people run, by the loop in which they run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Tokens that each sequence reads in one pass: 1 is decode, timed a step of [`Engine::decode`]; more is the reading of a
    /// prompt, timed until its last logits are in memory.
    pub tokens: u32,
    /// Sequences that are given them in one batch.
    pub sequences: u32,
}

impl Scenario {
    /// One token, as in generation.
    pub const DECODE: Scenario = Scenario { tokens: 1, sequences: 1 };

    /// The reading of a prompt.
    pub const fn prefill(tokens: u32) -> Scenario {
        Scenario { tokens, sequences: 1 }
    }

    /// One token of each of several sequences.
    pub(crate) const fn batch(sequences: u32) -> Scenario {
        Scenario { tokens: 1, sequences }
    }

    /// `decode`, `batched decode` or `prefill`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario { tokens: 1, sequences: 1 } => "decode",
            Scenario { tokens: 1, .. } => "batched decode",
            _ => "prefill",
        }
    }

    /// What runs it.
    fn timed_by(self) -> String {
        if self.tokens == 1 { "decode".to_owned() } else { "forward".to_owned() }
    }
}

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct PairedResult {
    /// Verdict and interval, for the candidate.
    pub comparison: Comparison,
    /// Median nanoseconds of the incumbent.
    pub incumbent_ns: f64,
    /// Median nanoseconds of the candidate.
    pub candidate_ns: f64,
}

/// The share by which a plan may be slower in one thing than what it takes the place of.
const MOST_SLOWER: f64 = 0.01;

impl PairedResult {
    /// Whether the candidate is surely slower, by more than may be.
    pub fn is_surely_slower(&self) -> bool {
        self.comparison.verdict == Verdict::Slow || self.comparison.interval.high < -MOST_SLOWER.ln_1p()
    }
}

/// How a comparison is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Time for it, but for compiling and the fewest pairs.
    pub(crate) allowance: Duration,
    /// Smallest gain that matters, as a ratio of times minus one.
    pub(crate) min_gain: f64,
}

impl Effort {
    /// For changes of which each costs something: other kernels, another layout.
    pub(crate) fn usual(allowance: Duration) -> Self {
        Effort { allowance, min_gain: Criteria::step().min_gain }
    }

    /// For two steps that differ in one stage of a merged kernel, whose times vary little: gains add up.
    pub(crate) fn fine(allowance: Duration) -> Self {
        Effort { allowance, min_gain: 0.004 }
    }
}

/// What stops a comparison.
#[derive(Debug, thiserror::Error)]
pub enum PairedError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The device or a plan.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// The persistent kernel that a plan asks for did not run.
    #[error("the persistent kernel did not run: {0}")]
    NotPersistent(String),
    /// The samples cannot be compared.
    #[error("the samples of two plans cannot be compared: {0}")]
    Samples(String),
}

/// Runs whole plans: gates them, and times them in pairs.
pub(crate) struct StepLab<'a> {
    /// Holds the weights and compiled kernels that all plans share.
    pub(crate) root: &'a GpuExecutor,
    /// What is right.
    pub(crate) reference: &'a Reference,
    /// The variants.
    pub(crate) catalogue: &'a Catalogue,
    /// Id of the model.
    pub(crate) model: &'a str,
}

impl StepLab<'_> {
    fn engine(&self, plan: &Plan, slots: usize) -> Result<Engine, RuntimeError> {
        let chunk = plan.prefill_chunk as usize;
        Ok(Engine::new(Box::new(self.root.sharing_weights(plan.clone(), slots)?), chunk))
    }

    fn identity(
        &self,
        memo: &Memo,
        op: &str,
        plan: &Plan,
        tunables: BTreeMap<String, String>,
        tokens: u32,
    ) -> Identity {
        let mut variant = format!("chunk {}, {} kernels", plan.prefill_chunk, plan.choices.len());
        for format in &plan.interleave {
            variant += &format!(", {format} interleaved");
        }
        for role in &plan.k_major {
            variant += &format!(", {role:?} K-major");
        }
        let subject = Subject {
            op: op.to_owned(),
            variant,
            tunables,
            shape: BTreeMap::from([("tokens".to_owned(), u64::from(tokens))]),
            format: None,
            kernel_hash: plan.hash(),
        };
        memo.identity(subject, Some(self.model), 1, ClockSource::Wall)
    }

    /// The quality gate of a plan. No plan is timed before it has passed.
    ///
    /// # Errors
    /// The device or the ledger fails.
    pub(crate) fn gate(&self, memo: &mut Memo, plan: &Plan) -> Result<Gate, PairedError> {
        let identity = self.identity(memo, "quality", plan, BTreeMap::new(), 0);
        if let Some(Outcome::Gate(gate)) = memo.recall(&identity.key()) {
            memo.count_recalled(&identity.key());
            return Ok(gate);
        }
        let quality = self.reference.evaluate(&mut self.engine(plan, Reference::SLOTS)?)?;
        let gate = gate_of(&quality, plan.least_precise(self.catalogue));
        memo.append(&identity, Outcome::Gate(gate.clone()))?;
        memo.measured += 1;
        Ok(gate)
    }

    /// Whether the persistent kernels that a plan asks for work here, or why not.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn persistent_status(&self, plan: &Plan) -> Result<PersistentStatus, RuntimeError> {
        let mut engine = self.engine(plan, 1)?;
        // The first pass may upload weights, dispatch by dispatch.
        for _ in 0..2 {
            engine.forward(&[Sequence { slot: 0, tokens: &[0], outputs: Outputs::Last }])?;
        }
        let none = || PersistentStatus::Refused(NotPersistent::Streamed);
        Ok(engine.report().persistent.unwrap_or_else(none))
    }

    /// Compares a candidate with the incumbent; a `held_out` comparison takes samples of its own.
    ///
    /// # Errors
    /// The device or the ledger fails.
    pub(crate) fn compare(
        &self,
        memo: &mut Memo,
        [incumbent, candidate]: [&Plan; 2],
        scenario: Scenario,
        held_out: bool,
        effort: Effort,
    ) -> Result<PairedResult, PairedError> {
        let arm = |own: &Plan, other: &Plan| {
            let samples = if held_out { "held out" } else { "first" };
            let tunables = [("against", other.hash()), ("samples", samples.to_owned()), ("loop", scenario.timed_by())];
            let tunables = tunables.map(|(name, value)| (name.to_owned(), value)).into();
            self.identity(memo, scenario.name(), own, tunables, scenario.tokens * scenario.sequences)
        };
        let arms = [arm(incumbent, candidate), arm(candidate, incumbent)];
        let known = arms.each_ref().map(|id| memo.recall(&id.key()).map(|o| o.samples_ns().to_vec()));
        let samples = match known {
            [Some(a), Some(b)] => {
                memo.count_recalled(&arms[0].key());
                [a, b]
            }
            _ => {
                let samples = self.pairs([incumbent, candidate], scenario, effort.allowance)?;
                for (id, samples_ns) in arms.iter().zip(&samples) {
                    memo.append(id, Outcome::Step { samples_ns: samples_ns.clone(), gate: None })?;
                }
                memo.measured += 1;
                samples
            }
        };
        let criteria = Criteria { min_pairs: FEWEST_PAIRS, min_gain: effort.min_gain, ..Criteria::step() };
        let comparison =
            compare(&samples[0], &samples[1], &criteria).map_err(|e| PairedError::Samples(e.to_string()))?;
        let [incumbent_ns, candidate_ns] = samples.map(|s| median(&s).unwrap_or(f64::NAN));
        Ok(PairedResult { comparison, incumbent_ns, candidate_ns })
    }

    fn pairs(&self, plans: [&Plan; 2], scenario: Scenario, allowance: Duration) -> Result<[Vec<f64>; 2], PairedError> {
        let slots = scenario.sequences as usize;
        let arm = |plan: &Plan| Ok::<_, PairedError>(Runs::new(self.engine(plan, slots)?, plan, scenario));
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
        let pairs = ((left / (2.0 * longest * f64::from(steps)).max(1.0)) as usize).clamp(FEWEST_PAIRS, PAIRS);
        let mut samples = [Vec::new(), Vec::new()];
        for pair in abba(pairs) {
            for arm in pair {
                let i = usize::from(arm == Arm::Candidate);
                samples[i].push(arms[i].sample()?);
            }
        }
        Ok(samples)
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
    fn sample(&mut self) -> Result<f64, PairedError> {
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
                return Err(PairedError::NotPersistent(match self.engine.report().persistent {
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
