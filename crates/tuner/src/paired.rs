//! Paired comparisons of whole steps: two plans, one model, real passes, wall clock, interleaved. What decides a plan.

use crate::ledger::{Gate, Identity, LedgerError, Outcome, Subject};
use crate::memo::Memo;
use crate::quality::{Quality, QualityError, Reference};
use crate::stats::schedule::{Arm, abba};
use crate::stats::summary::median;
use crate::stats::verdict::{Comparison, Criteria, compare};
use crate::stats::warmup::{Warmth, Warmup, WarmupRule};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_runtime::lab::ClockSource;
use wgoose_runtime::{Engine, GpuExecutor, NotPersistent, Outputs, PersistentStatus, RuntimeError, Sequence};

/// Pairs of a comparison, where time allows.
const PAIRS: usize = 40;

/// Fewest pairs that can say anything.
const FEWEST_PAIRS: usize = 6;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Tokens that each sequence is given in one call: 1 is decode, more is the reading of a prompt.
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

    /// Compares a candidate with the incumbent for at most `allowance`; a `held_out` comparison takes samples of its own.
    ///
    /// # Errors
    /// The device or the ledger fails.
    pub(crate) fn compare(
        &self,
        memo: &mut Memo,
        [incumbent, candidate]: [&Plan; 2],
        scenario: Scenario,
        held_out: bool,
        allowance: Duration,
    ) -> Result<PairedResult, PairedError> {
        let arm = |own: &Plan, other: &Plan| {
            let samples = if held_out { "held out" } else { "first" };
            let tunables = [("against".to_owned(), other.hash()), ("samples".to_owned(), samples.to_owned())];
            self.identity(memo, scenario.name(), own, tunables.into(), scenario.tokens * scenario.sequences)
        };
        let arms = [arm(incumbent, candidate), arm(candidate, incumbent)];
        let known = arms.each_ref().map(|id| memo.recall(&id.key()).map(|o| o.samples_ns().to_vec()));
        let samples = match known {
            [Some(a), Some(b)] => {
                memo.count_recalled(&arms[0].key());
                [a, b]
            }
            _ => {
                let samples = self.pairs([incumbent, candidate], scenario, allowance)?;
                for (id, samples_ns) in arms.iter().zip(&samples) {
                    memo.append(id, Outcome::Step { samples_ns: samples_ns.clone(), gate: None })?;
                }
                memo.measured += 1;
                samples
            }
        };
        let criteria = Criteria { min_pairs: FEWEST_PAIRS, ..Criteria::step() };
        let comparison =
            compare(&samples[0], &samples[1], &criteria).map_err(|e| PairedError::Samples(e.to_string()))?;
        let [incumbent_ns, candidate_ns] = samples.map(|s| median(&s).unwrap_or(f64::NAN));
        Ok(PairedResult { comparison, incumbent_ns, candidate_ns })
    }

    fn pairs(&self, plans: [&Plan; 2], scenario: Scenario, allowance: Duration) -> Result<[Vec<f64>; 2], PairedError> {
        let slots = scenario.sequences as usize;
        let mut engines = [self.engine(plans[0], slots)?, self.engine(plans[1], slots)?];
        let vocab = engines[0].shape().vocab;
        let prompt = |slot: u32| (0..scenario.tokens).map(|t| ((t + slot) * 7919 + 13) % vocab).collect();
        let tokens: Vec<Vec<u32>> = (0..scenario.sequences).map(prompt).collect();
        let start = Instant::now();
        let mut longest = 0f64;
        for engine in &mut engines {
            // The floor on the warm-up is in the rule; a comparison of slow steps must not spend its time on it.
            let mut warmup = Warmup::new(WarmupRule::default());
            let begun = Instant::now();
            loop {
                let ns = time(engine, &tokens)?;
                longest = longest.max(ns);
                let spent = begun.elapsed() > allowance / 6;
                if warmup.push(ns) != Warmth::Warming || spent {
                    break;
                }
            }
        }
        let left = allowance.saturating_sub(start.elapsed()).as_nanos() as f64;
        let pairs = ((left / (2.0 * longest.max(1.0))) as usize).clamp(FEWEST_PAIRS, PAIRS);
        let mut samples = [Vec::new(), Vec::new()];
        for pair in abba(pairs) {
            for arm in pair {
                let i = usize::from(arm == Arm::Candidate);
                samples[i].push(time(&mut engines[i], &tokens)?);
            }
        }
        Ok(samples)
    }
}

/// Wall-clock nanoseconds from the call until the logits of every sequence's last token are in memory.
fn time(engine: &mut Engine, tokens: &[Vec<u32>]) -> Result<f64, RuntimeError> {
    let sequence = |(slot, tokens)| Sequence { slot, tokens: Vec::as_slice(tokens), outputs: Outputs::Last };
    let sequences: Vec<Sequence<'_>> = tokens.iter().enumerate().map(sequence).collect();
    let start = Instant::now();
    engine.forward(&sequences)?;
    Ok(start.elapsed().as_nanos() as f64)
}

fn gate_of(q: &Quality, precision: Precision) -> Gate {
    let (certified, positions) = q.certified;
    let detail = format!(
        "{precision}; {certified} of {positions} positions certified, {} disagree; first tokens rms {:.1e}; KL {:.1e} nats",
        q.disagreements, q.first_rms, q.kl
    );
    Gate { passed: q.passed(precision), rms: q.rms, max: q.max, quality_hash: Some(q.hash.clone()), detail }
}
