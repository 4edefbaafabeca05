//! The quality gate of a whole model: numbers against the reference, and a hash of what greedy decoding says.
//!
//! The reference continues a fixed set of prompts greedily. A position is *certified* where the reference's best logit
//! leads by more than `MARGIN` of the logits' spread: there every correct implementation must choose the same token,
//! whatever its rounding. In the same way the order of the next best tokens is certified where they lie far enough
//! apart, which makes small mistakes (a wrong epsilon in one layer) visible too. The hash covers the tokens chosen at the
//! certified positions and every certified order, given the reference's tokens before them (so that one doubtful
//! position does not derail the rest), the model's and the prompts' ids.

mod filed;
mod pending;

pub use pending::PendingReference;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wgoose_graph::ModelShape;
use wgoose_kernels::Precision;
use wgoose_loader::Model;
use wgoose_runtime::logits::{best, divergence, relative_rms};
use wgoose_runtime::{Engine, Outputs, RuntimeError, Sequence, StateData};

/// Distance of two logits, in standard deviations of the position's logits, beyond which their order is certain. The
/// error of a correct implementation in f32 is 1e-5 of them.
const MARGIN: f32 = 1e-3;

/// The same at the first token of a sequence, which is ill-conditioned.
const FIRST_MARGIN: f32 = 2e-2;

/// How many of the best tokens are compared at each position.
const BEST: usize = 32;

/// Largest root-mean-square error of the logits, relative to the reference's, past the first token of a sequence.
const RMS_LIMIT: f64 = 1e-3;

/// The same for the first token, which is ill-conditioned: the state is of rank one, and its norm amplifies rounding.
const FIRST_RMS_LIMIT: f64 = 1e-2;

/// [`RMS_LIMIT`] of a plan that multiplies in f16.
const F16_RMS_LIMIT: f64 = 1e-2;

/// [`FIRST_RMS_LIMIT`] of a plan that multiplies in f16.
const F16_FIRST_RMS_LIMIT: f64 = 1e-1;

/// Largest mean Kullback-Leibler divergence of a plan that multiplies in f16, in nats.
const F16_KL_LIMIT: f64 = 1e-3;

/// [`RMS_LIMIT`] of a plan that rounds activations to int8. Each product is off by about 1/254 of its values (see
/// `Instance::rounding_error`), and a layer has seven that follow one another; tests of tiny models see up to 2e-2.
const INT8_RMS_LIMIT: f64 = 5e-2;

/// [`FIRST_RMS_LIMIT`] of a plan that rounds activations to int8.
const INT8_FIRST_RMS_LIMIT: f64 = 2e-1;

/// Largest mean Kullback-Leibler divergence of a plan that rounds activations to int8, in nats.
const INT8_KL_LIMIT: f64 = 5e-3;

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
pub struct Reference {
    /// Id of the model and of the prompts.
    id: String,
    /// Prompt and greedy continuation of each sequence.
    sequences: Vec<Vec<u32>>,
    /// The best tokens at each position of each sequence.
    rankings: Vec<Vec<Ranking>>,
    /// Rows of logits: sequence, position, logits.
    probes: Vec<(usize, usize, Vec<f32>)>,
}

/// The best tokens at one position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ranking {
    /// Best first.
    tokens: Vec<u32>,
    /// For each token but the last, whether it certainly precedes the next.
    certain: Vec<bool>,
}

/// How an engine compares with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Hash of the certified choices and orders, as the engine has them.
    pub hash: String,
    /// Certified positions, and positions in all.
    pub certified: (u32, u32),
    /// Certified choices and orders where the engine differs.
    pub disagreements: u32,
    /// Root-mean-square error relative to the reference, first tokens apart.
    pub rms: f64,
    /// The same at the first tokens.
    pub first_rms: f64,
    /// Largest absolute error of a logit.
    pub max: f64,
    /// Mean Kullback-Leibler divergence from the reference, in nats per position.
    pub kl: f64,
}

impl Quality {
    /// Whether the numbers are those of a correct implementation that computes with these precision. What is certified
    /// is so for f32, and asked of 15 bits too; of operands rounded further nothing is asked but that the logits stay
    /// close.
    pub fn passed(&self, precision: Precision) -> bool {
        // A gate that looks at nothing lets everything through.
        let within = |rms: f64, first: f64, kl: f64| {
            self.certified.0 > 0 && self.rms <= rms && self.first_rms <= first && self.kl <= kl
        };
        match precision {
            Precision::F32 | Precision::Q15 => {
                self.disagreements == 0 && within(RMS_LIMIT, FIRST_RMS_LIMIT, f64::INFINITY)
            }
            Precision::F16 => within(F16_RMS_LIMIT, F16_FIRST_RMS_LIMIT, F16_KL_LIMIT),
            Precision::Q8 => within(INT8_RMS_LIMIT, INT8_FIRST_RMS_LIMIT, INT8_KL_LIMIT),
        }
    }
}

/// What can go wrong with the reference.
#[derive(Debug, thiserror::Error)]
pub enum QualityError {
    /// Running a model.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
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
    /// The model cannot be run.
    pub fn compute(model: &Arc<Model>) -> Result<Reference, QualityError> {
        Reference::compute_while(model, &mut || true)?.ok_or(QualityError::Failed)
    }

    /// As [`Reference::compute`], for as long as `goes_on` says so between two passes over all prompts; `None` if it has ended that.
    ///
    /// # Errors
    /// As [`Reference::compute`].
    pub fn compute_while(
        model: &Arc<Model>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Reference>, QualityError> {
        let shape = *model.shape();
        let mut sequences = prompts(&shape);
        let mut engine = Engine::cpu(Arc::clone(model), sequences.len())?;
        let vocab = shape.vocab as usize;
        let mut forward = |tokens: &[Vec<u32>]| -> Result<Vec<Vec<f32>>, RuntimeError> {
            let sequence = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::All };
            engine.forward(&tokens.iter().map(Vec::as_slice).enumerate().map(sequence).collect::<Vec<_>>())
        };
        let mut logits = forward(&sequences)?;
        for _ in 0..CONTINUATION {
            if !goes_on() {
                return Ok(None);
            }
            let next: Vec<Vec<u32>> = logits.iter().map(|l| vec![best(&l[l.len() - vocab..])]).collect();
            for (i, row) in forward(&next)?.into_iter().enumerate() {
                sequences[i].extend(&next[i]);
                logits[i].extend(row);
            }
        }
        let rows = |i: usize| logits[i].chunks_exact(vocab).enumerate();
        let rankings = (0..sequences.len()).map(|i| rows(i).map(|(t, row)| rank(row, t == 0)).collect()).collect();
        let probes = probed().map(|(i, t)| (i, t, logits[i][t * vocab..][..vocab].to_vec())).collect();
        Ok(Some(Reference { id: id(model), sequences, rankings, probes }))
    }

    /// State slots that an engine needs for [`Reference::evaluate`].
    pub const SLOTS: usize = PROMPTS.len();

    /// Runs an engine over the prompts, packed, as prefill, then token by token as decode, by turns one sequence after
    /// another and all together, and compares.
    ///
    /// # Errors
    /// The device fails.
    pub fn evaluate(&self, engine: &mut Engine) -> Result<Quality, QualityError> {
        let vocab = engine.shape().vocab as usize;
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
        Ok(self.compare(&logits, vocab))
    }

    /// Runs an engine over the shortest prompts and what follows them as decode, token by token, and compares: of a plan that reads
    /// prompts and batches as one that people run anyway. The hash takes the reference's answers for all that was not run.
    ///
    /// # Errors
    /// The device fails.
    pub fn evaluate_decode(&self, engine: &mut Engine) -> Result<Quality, QualityError> {
        let (vocab, zero) = (engine.shape().vocab as usize, StateData::zero(engine.shape()));
        let mut logits = vec![Vec::new(); Self::SLOTS];
        for (slot, tokens) in self.sequences.iter().enumerate().skip(Self::SLOTS - DECODED) {
            engine.set_state(slot, &zero)?;
            for token in tokens {
                let sequence = Sequence { slot, tokens: &[*token], outputs: Outputs::Last };
                logits[slot].extend(engine.forward(&[sequence])?.into_iter().flatten());
            }
        }
        Ok(self.compare(&logits, vocab))
    }

    /// Certified positions, and positions in all.
    pub fn certified(&self) -> (u32, u32) {
        self.certified_of(&|_, _| true)
    }

    /// The same of some positions, by sequence and place.
    fn certified_of(&self, counts: &dyn Fn(usize, usize) -> bool) -> (u32, u32) {
        let sequences = self.rankings.iter().enumerate();
        let positions = sequences.flat_map(|(i, all)| all.iter().enumerate().map(move |(t, ranking)| (i, t, ranking)));
        positions.filter(|(i, t, _)| counts(*i, *t)).fold((0, 0), |(certified, all), (.., ranking)| {
            (certified + u32::from(ranking.certain.first() == Some(&true)), all + 1)
        })
    }

    /// The hash of every correct implementation.
    pub fn hash(&self) -> String {
        self.judge(&|_, _, ranking| ranking.tokens[0], &|_, _, _, _| true).0
    }

    /// Hash, and number of disagreements, of an engine: its choice at a position, and whether it puts one token before
    /// another.
    fn judge(
        &self,
        chosen: &dyn Fn(usize, usize, &Ranking) -> u32,
        precedes: &dyn Fn(usize, usize, u32, u32) -> bool,
    ) -> (String, u32) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.id.as_bytes());
        let mut disagreements = 0;
        for (i, sequence) in self.rankings.iter().enumerate() {
            for (t, ranking) in sequence.iter().enumerate() {
                let pairs = ranking.tokens.windows(2).zip(&ranking.certain).filter(|(_, certain)| **certain);
                let orders: Vec<u8> = pairs.map(|(pair, _)| u8::from(precedes(i, t, pair[0], pair[1]))).collect();
                disagreements += orders.iter().filter(|o| **o == 0).count() as u32;
                hasher.update(&orders);
                if ranking.certain.first() == Some(&true) {
                    let token = chosen(i, t, ranking);
                    disagreements += u32::from(token != ranking.tokens[0]);
                    hasher.update(&token.to_le_bytes());
                }
            }
        }
        (hasher.finalize().to_hex()[..16].to_owned(), disagreements)
    }

    /// Holds logits against the reference: of each sequence, those of its first positions, or none.
    fn compare(&self, logits: &[Vec<f32>], vocab: usize) -> Quality {
        let row = |i: usize, t: usize| logits[i].get(t * vocab..(t + 1) * vocab);
        let precedes = |i, t, a: u32, b: u32| row(i, t).is_none_or(|row| row[a as usize] > row[b as usize]);
        let (hash, disagreements) = self.judge(&|i, t, ranking| row(i, t).map_or(ranking.tokens[0], best), &precedes);
        let certified = self.certified_of(&|i, t| row(i, t).is_some());
        let (mut rms, mut first_rms, mut max, mut kl) = (0f64, 0f64, 0f64, 0f64);
        let probes = || self.probes.iter().filter_map(|(i, t, want)| Some((t, want, row(*i, *t)?)));
        for (t, want, got) in probes() {
            let error = relative_rms(got, want);
            let worst = if *t == 0 { &mut first_rms } else { &mut rms };
            *worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
            max = got.iter().zip(want).map(|(g, w)| f64::from((g - w).abs())).fold(max, f64::max);
            kl += divergence(want, got);
        }
        kl /= probes().count().max(1) as f64;
        // Rows that are compared as a whole are few.
        if logits.iter().flatten().any(|logit| !logit.is_finite()) {
            rms = f64::INFINITY;
        }
        Quality { hash, certified, disagreements, rms, first_rms, max, kl }
    }
}

/// Sequence and position of the rows of logits that are kept.
fn probed() -> impl Iterator<Item = (usize, usize)> {
    let positions = |len: usize| (0..len + CONTINUATION).step_by(PROBE_EVERY);
    PROMPTS.into_iter().enumerate().flat_map(move |(i, len)| positions(len).map(move |t| (i, t)))
}

fn id(model: &Model) -> String {
    let setup = format!("{} {PROMPTS:?} {CONTINUATION} {BEST} {MARGIN} {FIRST_MARGIN}", model.fingerprint());
    blake3::hash(setup.as_bytes()).to_hex().to_string()
}

/// The fixed prompts: pseudo-random tokens (splitmix64), the same for every model with that vocabulary size.
fn prompts(shape: &ModelShape) -> Vec<Vec<u32>> {
    let mut rng = SplitMix64::seed_from_u64(7);
    let mut token = || (1 + rng.next_u64() % u64::from(shape.vocab - 1).max(1)) as u32 % shape.vocab;
    PROMPTS.map(|len| (0..len).map(|_| token()).collect()).to_vec()
}

/// The best tokens of a position, and which of their orders are certain.
fn rank(logits: &[f32], is_first: bool) -> Ranking {
    let n = logits.len() as f32;
    let mean = logits.iter().sum::<f32>() / n;
    let spread = (logits.iter().map(|l| (l - mean).powi(2)).sum::<f32>() / n).sqrt();
    let margin = spread * if is_first { FIRST_MARGIN } else { MARGIN };
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    tokens.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    tokens.truncate(BEST);
    let certain = tokens.windows(2).map(|w| logits[w[0] as usize] - logits[w[1] as usize] > margin).collect();
    Ranking { tokens, certain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompts_are_pinned() {
        // A change here changes the quality hash of every model.
        let prompts = prompts(&ModelShape { vocab: 256, ..ModelShape::preset("0.1B").unwrap() });
        assert_eq!(prompts[0][..4], [103, 25, 217, 199]);
    }

    #[test]
    fn a_gate_that_certifies_nothing_does_not_pass() {
        let found = |certified| Quality {
            hash: String::new(),
            certified,
            disagreements: 0,
            rms: 0.0,
            first_rms: 0.0,
            max: 0.0,
            kl: 0.0,
        };
        for precision in [Precision::F32, Precision::Q15, Precision::F16, Precision::Q8] {
            assert!(
                found((1, 9)).passed(precision) && !found((0, 9)).passed(precision) && !found((0, 0)).passed(precision)
            );
        }
    }
}
