//! The quality gate of a whole model: numbers against the reference, and hashes of what greedy decoding says.
//!
//! The reference continues a fixed set of prompts greedily on the CPU, in f32, and keeps the best tokens of every
//! position with the distances of their logits. A decision (which token is best; which of two of the next best comes
//! first) is *certified* for a class of precision where that distance is beyond what the class may round (`rounding`).
//! There every correct plan of the class, and of every finer one, decides alike, on every device. The hash of a class
//! covers its certified decisions, given the reference's tokens before them (so that one doubtful position does not
//! derail the rest), the model's and the prompts' ids.
//!
//! The CPU is too slow for long prompts and many sequences: `extended` holds these against f32 kernels on the same
//! device.

mod extended;
mod filed;
mod pending;
mod pieces;
mod ranking;
mod rounding;
#[cfg(test)]
mod small;

pub use extended::{ExtendedQuality, ExtendedReference, ExtendedWorkload};
pub use pending::PendingReference;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
pub use ranking::{Agreement, LEAST_CERTIFIED};
use ranking::{Answer, BEST, Position, Ranking, judge, of_class};
use rayon::prelude::*;
use rounding::Rounding;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wgoose_graph::{ModelShape, Weight};
use wgoose_kernels::PrecisionClass;
use wgoose_kernels::plan::Checked;
use wgoose_loader::Model;
use wgoose_runtime::logits::{best, divergence, relative_rms};
use wgoose_runtime::{CancelToken, Engine, Outputs, RuntimeError, Sequence, StateData};

/// Lengths of the prompts, packed into passes: segments that begin and end inside chunks.
const PROMPTS: [usize; 4] = [81, 47, 23, 9];

/// Tokens decoded after each prompt.
const CONTINUATION: usize = 6;

/// Of these, the shortest ones that are read token by token where decoding is all that is looked at.
const DECODED: usize = 2;

/// Every that many positions the whole row of logits is kept for comparison.
const PROBE_EVERY: usize = 8;

/// What the reference says about the prompts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Id of the model and of the prompts.
    id: String,
    rounding: Rounding,
    /// Prompt and greedy continuation of each sequence.
    sequences: Vec<Vec<u32>>,
    /// The best tokens at each position of each sequence.
    rankings: Vec<Vec<Ranking>>,
    /// Rows of logits: sequence, position, logits.
    probes: Vec<(usize, usize, Vec<f32>)>,
}

/// How an engine compares with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// By the measure of its class, then of each coarser one; limits are of `rms`, `first_rms` and `kl`.
    pub agreements: Vec<Agreement>,
    /// Root-mean-square error relative to the reference, first tokens apart.
    pub rms: f64,
    /// The same at the first tokens.
    pub first_rms: f64,
    /// Largest absolute error of a logit.
    pub max: f64,
    /// Mean Kullback-Leibler divergence from the reference past first tokens, in nats per position.
    pub kl: f64,
    /// Longest prompt and largest batch.
    pub checked: Checked,
    /// Where logits are NaN or infinite, what makes them so.
    pub broken: Option<String>,
}

impl Quality {
    /// By the measure of its own class.
    pub fn own(&self) -> &Agreement {
        &self.agreements[0]
    }

    /// Hash of its own class.
    pub fn hash(&self) -> &str {
        &self.own().hash
    }

    /// Whether these are the numbers and the decisions of a correct plan of its class.
    pub fn passed(&self) -> bool {
        self.passed_by(self.own().class)
    }

    /// The same by the measure of a coarser class.
    pub fn passed_by(&self, class: PrecisionClass) -> bool {
        let errors = [self.rms, self.first_rms, self.kl];
        self.broken.is_none() && of_class(&self.agreements, class).is_some_and(|agreement| agreement.passes(errors))
    }
}

/// `f16: 5012 of 5012 decisions agree, 171 of 184 positions certified; rms error 1.2e-3 (7.2e-3 at first tokens), KL
/// 2.3e-5 nats`.
impl std::fmt::Display for Quality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(broken) = &self.broken {
            return write!(f, "the model computes no finite logits: {broken}");
        }
        let Agreement { class, certified: (certified, positions), decisions, disagreements, .. } = self.own();
        let agree = decisions - disagreements;
        write!(f, "{class}: {agree} of {decisions} decisions agree, {certified} of {positions} positions certified; ")?;
        write!(f, "rms error {:.1e} ({:.1e} at first tokens), KL {:.1e} nats", self.rms, self.first_rms, self.kl)?;
        if self.own().is_by_errors_only() {
            f.write_str("; judged by KL only")?;
        }
        Ok(())
    }
}

/// What can go wrong with the reference.
#[derive(Debug, thiserror::Error)]
pub enum QualityError {
    /// Running a model.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A weight of the model.
    #[error("{weight} has {value} in row {row}, column {column}: a model with such a weight computes nothing")]
    Weight {
        /// Its name.
        weight: String,
        /// NaN or an infinity.
        value: f32,
        /// Its row, from 0.
        row: usize,
        /// Its column, from 0.
        column: usize,
    },
    /// The model's arithmetic breaks on the CPU, in f32.
    #[error("the model computes no finite logits: {0}")]
    NotFinite(String),
    /// The device's f32 kernels, which long prompts and full batches are held against.
    #[error("the device's f32 kernels do not pass the gate: {0}")]
    F32(String),
    /// The cached reference cannot be written.
    #[error("reference {path}: {why}")]
    Cache {
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
    /// It was asked for again.
    #[error("the reference could not be computed before")]
    Failed,
}

impl Reference {
    /// Computes the reference on the CPU.
    ///
    /// # Errors
    /// The model cannot be run, or one of its weights or logits is NaN or infinite; [`RuntimeError::Cancelled`] between
    /// two passes over all prompts.
    pub fn compute(model: &Arc<Model>, cancel: &CancelToken) -> Result<Reference, QualityError> {
        check_weights(model)?;
        let shape = *model.shape();
        let mut sequences = prompts(&shape);
        let mut engine = Engine::cpu(Arc::clone(model), sequences.len())?;
        let vocab = shape.vocab as usize;
        let mut logits = forward(&mut engine, &sequences)?;
        for _ in 0..CONTINUATION {
            cancel.check()?;
            let next: Vec<Vec<u32>> = logits.iter().map(|l| vec![best(&l[l.len() - vocab..])]).collect();
            for (i, row) in forward(&mut engine, &next)?.into_iter().enumerate() {
                sequences[i].extend(&next[i]);
                logits[i].extend(row);
            }
        }
        if let Some(broken) = broken(&mut engine, &sequences, &logits)? {
            return Err(QualityError::NotFinite(broken));
        }
        let rows = |i: usize| logits[i].chunks_exact(vocab);
        let rankings = (0..sequences.len()).map(|i| rows(i).map(Ranking::of).collect()).collect();
        let probes = probed().map(|(i, t)| (i, t, logits[i][t * vocab..][..vocab].to_vec())).collect();
        Ok(Reference { id: id(model), rounding: Rounding::of(model), sequences, rankings, probes })
    }

    /// State slots that an engine needs for [`Reference::evaluate`].
    pub const SLOTS: usize = PROMPTS.len();

    /// Runs an engine of a class over the prompts, packed, as prefill, then token by token as decode, by turns one
    /// sequence after another and all together, then each prompt in pieces, and compares: what disagrees, or what came
    /// of the prompts packed.
    ///
    /// # Errors
    /// The device fails.
    pub fn evaluate(&self, engine: &mut Engine, class: PrecisionClass) -> Result<Quality, QualityError> {
        let zero = StateData::zero(engine.shape());
        for slot in 0..Self::SLOTS {
            engine.set_state(slot, &zero)?;
        }
        let prompts = self.sequences.iter().zip(PROMPTS).enumerate();
        let packed: Vec<Sequence<'_>> = prompts
            .map(|(slot, (tokens, len))| Sequence { slot, tokens: &tokens[..len], outputs: Outputs::All })
            .collect();
        let mut logits = engine.forward(&packed)?;
        for step in 0..CONTINUATION {
            let slots = self.sequences.iter().zip(PROMPTS).enumerate();
            let all: Vec<Sequence<'_>> = slots
                .map(|(slot, (tokens, len))| Sequence {
                    slot,
                    tokens: &tokens[len + step..=len + step],
                    outputs: Outputs::Last,
                })
                .collect();
            let size = if step % 2 == 0 { 1 } else { all.len().max(1) };
            for passed in all.chunks(size) {
                for (sequence, rows) in passed.iter().zip(engine.forward(passed)?) {
                    logits[sequence.slot].extend(rows);
                }
            }
        }
        let packed = self.compare(engine, &logits, class)?;
        if !packed.passed() {
            return Ok(packed);
        }
        let pieces = self.evaluate_pieces(engine, class)?;
        Ok(if pieces.passed() { packed } else { pieces })
    }

    /// Runs an engine of a class over the shortest prompts and what follows them as decode, token by token, and
    /// compares: of a plan that reads prompts and batches as one that people run anyway. The hashes take the
    /// reference's answers for all that was not run.
    ///
    /// # Errors
    /// The device fails.
    pub fn evaluate_decode(&self, engine: &mut Engine, class: PrecisionClass) -> Result<Quality, QualityError> {
        let zero = StateData::zero(engine.shape());
        let mut logits = vec![Vec::new(); Self::SLOTS];
        for (slot, tokens) in self.sequences.iter().enumerate().skip(Self::SLOTS - DECODED) {
            engine.set_state(slot, &zero)?;
            for token in tokens {
                let sequence = Sequence { slot, tokens: &[*token], outputs: Outputs::Last };
                logits[slot].extend(engine.forward(&[sequence])?.into_iter().flatten());
            }
        }
        self.compare(engine, &logits, class)
    }

    /// What every correct plan of a class comes to, by the class's measure.
    pub fn expected(&self, class: PrecisionClass) -> Agreement {
        let errors = self.probes.iter().fold(Errors::default(), |mut errors, (_, t, row)| {
            errors.add(row, row, *t == 0);
            errors
        });
        let limits = errors.limits(&self.rounding, class);
        judge(&self.id, &self.rounding, (class, limits), self.positions(&|_, _| Answer::Reference))
    }

    fn positions<'a>(&'a self, answer: &'a dyn Fn(usize, usize) -> Answer<'a>) -> impl Iterator<Item = Position<'a>> {
        self.rankings.iter().enumerate().flat_map(move |(i, rankings)| {
            let position = move |(t, ranking)| Position { ranking, is_first: t == 0, answer: answer(i, t) };
            rankings.iter().enumerate().map(position)
        })
    }

    /// Holds logits of an engine against the reference: of each sequence, those of its first positions, or none.
    fn compare(
        &self,
        engine: &mut Engine,
        logits: &[Vec<f32>],
        class: PrecisionClass,
    ) -> Result<Quality, QualityError> {
        let vocab = engine.shape().vocab as usize;
        let row = |i: usize, t: usize| logits[i].get(t * vocab..(t + 1) * vocab);
        let answer = |i: usize, t: usize| row(i, t).map_or(Answer::Unseen, Answer::Engine);
        let mut errors = Errors::default();
        for (i, t, want) in &self.probes {
            if let Some(got) = row(*i, *t) {
                errors.add(want, got, *t == 0);
            }
        }
        let judge = |class| {
            let limits = errors.limits(&self.rounding, class);
            judge(&self.id, &self.rounding, (class, limits), self.positions(&answer))
        };
        let agreements = class.and_coarser().map(judge).collect();
        let Errors { rms, first_rms, max, .. } = errors;
        let tokens = logits.iter().map(|logits| logits.len() / vocab).max().unwrap_or(0) as u32;
        let is_batched = logits.iter().all(|logits| !logits.is_empty());
        let checked = Checked { tokens, sequences: if is_batched { logits.len() as u32 } else { 1 } };
        let broken = broken(engine, &self.sequences, logits)?;
        Ok(Quality { agreements, rms, first_rms, max, kl: errors.kl(), checked, broken })
    }
}

/// Errors of whole rows of logits.
#[derive(Default)]
struct Errors {
    rms: f64,
    first_rms: f64,
    max: f64,
    kl: f64,
    /// Rows past first tokens.
    rows: u32,
    /// Sum over these rows of half the mean square of the logits: what KL may be where errors are as large as the
    /// logits.
    half_squares: f64,
}

impl Errors {
    fn add(&mut self, want: &[f32], got: &[f32], is_first: bool) {
        let error = relative_rms(got, want);
        let worst = if is_first { &mut self.first_rms } else { &mut self.rms };
        *worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
        self.max = got.iter().zip(want).map(|(g, w)| f64::from((g - w).abs())).fold(self.max, f64::max);
        if !is_first {
            self.kl += divergence(want, got);
            self.rows += 1;
            let squares: f64 = want.iter().map(|logit| f64::from(*logit).powi(2)).sum();
            self.half_squares += squares / want.len() as f64 / 2.0;
        }
    }

    /// Mean divergence.
    fn kl(&self) -> f64 {
        self.kl / f64::from(self.rows.max(1))
    }

    /// The most that a class may have of rms, of rms at first tokens, and of KL: of errors e of logits it is half the
    /// variance of e under the distribution of the next token.
    fn limits(&self, rounding: &Rounding, class: PrecisionClass) -> [f64; 3] {
        let [rms, first_rms] = [false, true].map(|is_first| rounding.rms_limit(class, is_first));
        [rms, first_rms, self.half_squares * rms.powi(2) / f64::from(self.rows.max(1))]
    }
}

fn forward(engine: &mut Engine, tokens: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, RuntimeError> {
    let sequence = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::All };
    engine.forward(&tokens.iter().map(Vec::as_slice).enumerate().map(sequence).collect::<Vec<_>>())
}

/// Where logits are NaN or infinite, the first op that makes such a number.
fn broken(engine: &mut Engine, sequences: &[Vec<u32>], logits: &[Vec<f32>]) -> Result<Option<String>, QualityError> {
    let is_broken = |logits: &Vec<f32>| !logits.iter().all(|logit| logit.is_finite());
    let Some(slot) = logits.par_iter().position_first(is_broken) else { return Ok(None) };
    engine.set_state(slot, &StateData::zero(engine.shape()))?;
    let found = engine.first_not_finite(slot, &sequences[slot])?;
    Ok(Some(found.map_or_else(|| "no op of a trace shows where".to_owned(), |found| found.to_string())))
}

/// Refuses a model with a weight that is NaN or infinite: an op may take it for a number, as a sigmoid does.
fn check_weights(model: &Model) -> Result<(), QualityError> {
    let weights: Vec<Weight> = Weight::all(model.shape()).collect();
    let found = weights.par_iter().find_map_first(|weight| {
        let (row, column, value) = model.tensor(*weight).find_not_finite()?;
        Some(QualityError::Weight { weight: weight.to_string(), value, row, column })
    });
    found.map_or(Ok(()), Err)
}

/// Sequence and position of the rows of logits that are kept.
fn probed() -> impl Iterator<Item = (usize, usize)> {
    let positions = |len: usize| (0..len + CONTINUATION).step_by(PROBE_EVERY);
    PROMPTS.into_iter().enumerate().flat_map(move |(i, len)| positions(len).map(move |t| (i, t)))
}

fn id(model: &Model) -> String {
    let setup = format!("{} {PROMPTS:?} {CONTINUATION} {BEST} {:?}", model.fingerprint(), Rounding::of(model));
    blake3::hash(setup.as_bytes()).to_hex().to_string()
}

/// The fixed prompts: pseudo-random tokens (splitmix64), the same for every model with that vocabulary size.
fn prompts(shape: &ModelShape) -> Vec<Vec<u32>> {
    let mut random = RandomTokens::new(7, shape);
    PROMPTS.map(|len| random.take(len)).to_vec()
}

/// Pseudo-random tokens (splitmix64), none of them 0 where there are others.
struct RandomTokens {
    rng: SplitMix64,
    vocab: u32,
}

impl RandomTokens {
    fn new(seed: u64, shape: &ModelShape) -> Self {
        RandomTokens { rng: SplitMix64::seed_from_u64(seed), vocab: shape.vocab }
    }

    fn take(&mut self, count: usize) -> Vec<u32> {
        let others = u64::from(self.vocab - 1).max(1);
        (0..count).map(|_| (1 + self.rng.next_u64() % others) as u32 % self.vocab).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_kernels::Precision;

    #[test]
    fn the_prompts_are_pinned() {
        // A change here changes the quality hash of every model.
        let prompts = prompts(&ModelShape { vocab: 256, ..ModelShape::preset("0.1B").unwrap() });
        assert_eq!(prompts[0][..4], [103, 25, 217, 199]);
    }

    fn found(class: PrecisionClass, certified: u32, disagreements: u32) -> Quality {
        let (hash, certified, limits) = (String::new(), (certified, 184), [1.0; 3]);
        let own = Agreement { class, hash, certified, decisions: 999, disagreements, limits };
        let checked = Checked::default();
        Quality { agreements: vec![own], rms: 0.5, first_rms: 0.5, max: 0.0, kl: 0.5, checked, broken: None }
    }

    #[test]
    fn a_gate_that_certifies_too_little_does_not_pass() {
        for class in PrecisionClass::all() {
            let is_q8 = class.products == Precision::Q8;
            assert!(found(class, LEAST_CERTIFIED, 0).passed());
            let few = found(class, LEAST_CERTIFIED - 1, 0);
            assert_eq!((few.passed(), few.own().is_by_errors_only()), (is_q8, is_q8), "{class}");
            let far = Quality { kl: 1.1, ..few };
            assert!(!far.passed() && !Quality { kl: f64::NAN, ..far }.passed());
        }
    }

    #[test]
    fn a_single_disagreement_fails_the_gate_in_every_class() {
        for class in PrecisionClass::all() {
            assert!(found(class, 99, 0).passed() && !found(class, 99, 1).passed(), "{class}");
        }
    }
}
