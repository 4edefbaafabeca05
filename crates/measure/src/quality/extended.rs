//! Long prompts and full batches, held against f32 kernels on the same device: the CPU is too slow for them.
//!
//! The f32 kernels must pass the CPU's gate themselves. Their result is right for every device, so it is kept beside
//! the reference and computed once.

use super::filed::{self, Unusable};
use super::ranking::{Agreement, Answer, LEAST_CERTIFIED, Position, Ranking, judge, of_class};
use super::rounding::Rounding;
use super::{Errors, QualityError, RandomTokens, Reference};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::PrecisionClass;
use wgoose_kernels::plan::Checked;
use wgoose_loader::Model;
use wgoose_runtime::logits::relative_rms;
use wgoose_runtime::{Engine, Outputs, RuntimeError, Sequence, StateData};

/// Tokens of a pass of f32 kernels: no kernel runs that the CPU's gate has not looked at, as it would for more rows
/// than its prompts have.
const F32_CHUNK: usize = 64;

/// Sequences that decode together, each batch two steps.
const BATCHES: [usize; 3] = [8, 32, 128];

/// Fewest tokens that sequences read from an empty state before they are looked at: the first tokens are off by more.
/// The largest errors of 48 sequences of a 0.4B F16 on an H200, over the logits' standard deviation, were 0.11 at the
/// first token, 0.050 at the second, 0.029 at the third and 0.0075 at the tenth, as far on.
const SETTLED: usize = 10;

/// Tokens that one sequence decodes.
const DECODED: usize = 64;

/// Values of each tensor of a state that are compared.
const STATE_VALUES: usize = 128;

/// How many times as far off as the logits a tensor of the state may be: a product of two roundings, and the one that
/// is furthest off of three a layer.
const STATE_LIMIT: f64 = 4.0;

/// Slots of sequences whose states are compared after a batch.
const STATES_OF_BATCH: [usize; 4] = [0, 7, 31, 127];

/// What is run: it depends on how a plan divides prompts, and on how many sequences a device has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendedWorkload {
    chunk: usize,
    sequences: usize,
    /// Whether all that is run is one sequence that decodes.
    only_decode: bool,
}

impl ExtendedWorkload {
    /// For an engine's chunk and slots.
    pub fn new(chunk: usize, slots: usize, only_decode: bool) -> Self {
        let sequences = BATCHES.into_iter().rfind(|batch| *batch <= slots).unwrap_or(1);
        ExtendedWorkload { chunk, sequences: if only_decode { 1 } else { sequences }, only_decode }
    }

    /// The largest that an engine and its f32 form have memory for.
    pub fn fitting(engine: &mut Engine, only_decode: bool) -> Self {
        let mut has_room =
            |slots: usize| engine.grow(slots).is_ok_and(|there| there >= slots) && engine.in_f32(slots).is_ok();
        let slots = match only_decode {
            true => 1,
            false => BATCHES.into_iter().rfind(|slots| has_room(*slots)).unwrap_or(1),
        };
        ExtendedWorkload::new(engine.chunk(), slots, only_decode)
    }

    /// Slots that it takes at most.
    pub const SLOTS: usize = BATCHES[BATCHES.len() - 1];

    /// Tokens of the longest prompt: two chunks and a rest.
    fn tokens(&self) -> usize {
        if self.only_decode { DECODED } else { 2 * self.chunk + self.chunk / 4 + 3 }
    }

    /// Longest prompt and largest batch.
    pub fn checked(&self) -> Checked {
        Checked { tokens: self.tokens() as u32, sequences: self.sequences as u32 }
    }

    /// Tokens of one pass for each row bucket, the longest first: 299 tokens for 257 to 1,024.
    fn passes(&self) -> Vec<usize> {
        let mut bucket = 4;
        let mut all = Vec::new();
        while bucket / 4 < self.chunk {
            all.push((bucket / 4 + bucket / 24 + 1).min(self.chunk));
            bucket *= 4;
        }
        all.reverse();
        all
    }
}

/// What is done to an engine, one after another.
enum Step {
    /// States are zero again.
    Reset(Range<usize>),
    /// One call with random tokens for slots from 0 on, so many each: a row of logits for each.
    Read(Vec<usize>),
    /// Values of the states of slots are kept.
    KeepStates(Vec<usize>),
}

impl ExtendedWorkload {
    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Reset(0..self.sequences.min(3))];
        if !self.only_decode {
            steps.extend([Step::Read(vec![self.tokens()]), Step::KeepStates(vec![0])]);
        }
        if !self.only_decode && self.sequences >= 3 {
            for tokens in self.passes() {
                let first = tokens.div_ceil(6);
                let second = (tokens / 3).min(tokens - first);
                let lengths = [first, second, tokens - first - second];
                steps.push(Step::Read(lengths.into_iter().take_while(|length| *length > 0).collect()));
            }
            steps.extend([Step::KeepStates(vec![0, 1, 2]), Step::Reset(0..self.sequences)]);
            // No two have the same state: a swapped one shows.
            steps.push(Step::Read((0..self.sequences).map(|i| SETTLED + i % 5).collect()));
            for batch in BATCHES.into_iter().filter(|batch| *batch <= self.sequences) {
                steps.extend([Step::Read(vec![1; batch]), Step::Read(vec![1; batch])]);
            }
            let kept = STATES_OF_BATCH.into_iter().filter(|slot| *slot < self.sequences);
            steps.push(Step::KeepStates(kept.collect()));
        }
        steps.extend((0..DECODED).map(|_| Step::Read(vec![1])));
        steps.push(Step::KeepStates(vec![0]));
        steps
    }

    /// Rows of logits, and the last row of each call.
    fn rows(&self) -> (usize, Vec<usize>) {
        let (mut rows, mut ends) = (0, Vec::new());
        for step in self.steps() {
            if let Step::Read(lengths) = step {
                rows += lengths.len();
                ends.push(rows - 1);
            }
        }
        (rows, ends)
    }

    /// How many values of each kept tensor of a state of a model there are, in the order in which they are kept.
    fn state_values(&self, shape: &ModelShape) -> Vec<usize> {
        let kept = self.steps().into_iter().filter_map(|step| match step {
            Step::KeepStates(slots) => Some(slots.len()),
            _ => None,
        });
        let of_slot = State::all(shape).map(|tensor| {
            let len = tensor.len(shape);
            len.div_ceil(every(len))
        });
        let of_slot: Vec<usize> = of_slot.collect();
        of_slot.repeat(kept.sum())
    }
}

/// Of a tensor of so many values of a state, one of so many is compared: an odd number, so that no column is left out.
fn every(len: usize) -> usize {
    len.div_ceil(STATE_VALUES) | 1
}

/// What a workload comes to.
#[derive(Default)]
struct Results {
    /// Logits, in the order in which they were asked for.
    rows: Vec<Vec<f32>>,
    /// Values of the tensors of some states.
    states: Vec<Vec<f32>>,
}

fn run(workload: &ExtendedWorkload, engine: &mut Engine) -> Result<Results, RuntimeError> {
    let shape = *engine.shape();
    let (zero, mut random) = (StateData::zero(&shape), RandomTokens::new(11, &shape));
    let mut results = Results::default();
    for step in workload.steps() {
        match step {
            Step::Reset(slots) => slots.into_iter().try_for_each(|slot| engine.set_state(slot, &zero))?,
            Step::Read(lengths) => {
                let tokens: Vec<Vec<u32>> = lengths.iter().map(|length| random.take(*length)).collect();
                let sequence = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::Last };
                let sequences: Vec<Sequence<'_>> = tokens.iter().map(Vec::as_slice).enumerate().map(sequence).collect();
                results.rows.extend(engine.forward(&sequences)?);
            }
            Step::KeepStates(slots) => {
                for slot in slots {
                    let tensors: Vec<(usize, State)> = State::all(&shape).map(|tensor| (slot, tensor)).collect();
                    for values in engine.state_tensors(&tensors)? {
                        let every = every(values.len());
                        results.states.push(values.into_iter().step_by(every).collect());
                    }
                }
            }
        }
    }
    Ok(results)
}

/// What f32 kernels come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendedReference {
    id: String,
    workload: ExtendedWorkload,
    rounding: Rounding,
    rankings: Vec<Ranking>,
    /// Whole rows of logits, by their number.
    probes: Vec<(usize, Vec<f32>)>,
    states: Vec<Vec<f32>>,
}

/// How an engine compares with f32 kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendedQuality {
    /// By the measure of its class, then of each coarser one; limits are of `rms`, `state_rms` and `kl`.
    pub agreements: Vec<Agreement>,
    /// Largest root-mean-square error of a row of logits, relative to the logits.
    pub rms: f64,
    /// Largest absolute error of a logit.
    pub max: f64,
    /// Largest root-mean-square error of a tensor of a state, relative to the tensor.
    pub state_rms: f64,
    /// Mean Kullback-Leibler divergence, in nats per row.
    pub kl: f64,
    /// Longest prompt and largest batch.
    pub checked: Checked,
}

impl ExtendedQuality {
    /// By the measure of its own class.
    pub fn own(&self) -> &Agreement {
        &self.agreements[0]
    }

    /// Whether these are the numbers and the decisions of a correct plan of its class.
    pub fn passed(&self) -> bool {
        self.passed_by(self.own().class)
    }

    /// The same by the measure of a coarser class.
    pub fn passed_by(&self, class: PrecisionClass) -> bool {
        let errors = [self.rms, self.state_rms, self.kl];
        of_class(&self.agreements, class).is_some_and(|agreement| agreement.passes(errors))
    }
}

/// `4611 tokens, 128 sequences: 9120 of 9120 decisions agree; rms error 1.2e-3, of states 2.0e-3, KL 2.3e-5 nats`.
impl fmt::Display for ExtendedQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { decisions, disagreements, .. } = self.own();
        write!(f, "{}: {} of {decisions} decisions agree; ", self.checked, decisions - disagreements)?;
        write!(f, "rms error {:.1e}, of states {:.1e}, KL {:.1e} nats", self.rms, self.state_rms, self.kl)
    }
}

impl ExtendedReference {
    /// As [`ExtendedReference::compute`], keeping the result in a file of `folder`; one that is not right in everything
    /// is made again.
    ///
    /// # Errors
    /// As [`ExtendedReference::compute`], or the folder cannot be written.
    pub fn cached(
        model: &Model,
        reference: &Reference,
        engine: &Engine,
        workload: ExtendedWorkload,
        folder: &Path,
    ) -> Result<ExtendedReference, QualityError> {
        let id = id(model, &workload);
        let path = folder.join(format!("extended-{}.json", &id[..16]));
        let filed = filed::read::<ExtendedReference>(&path);
        let checked = filed.and_then(|filed| filed.check(workload, model).map(|()| filed).map_err(Unusable::Content));
        filed::or_made(checked, &path, || ExtendedReference::compute(model, reference, engine, workload))
    }

    /// What f32 kernels come to on an engine's device, once they have passed the CPU's gate.
    ///
    /// # Errors
    /// The device fails, or the f32 kernels do not pass.
    pub fn compute(
        model: &Model,
        reference: &Reference,
        engine: &Engine,
        workload: ExtendedWorkload,
    ) -> Result<ExtendedReference, QualityError> {
        let mut f32 = engine.in_f32(workload.sequences.max(Reference::SLOTS))?.with_chunk(F32_CHUNK);
        let quality = reference.evaluate(&mut f32, PrecisionClass::default())?;
        if !quality.passed() {
            return Err(QualityError::F32(quality.to_string()));
        }
        let Results { rows, states } = run(&workload, &mut f32)?;
        if !rows.iter().chain(&states).flatten().all(|value| value.is_finite()) {
            return Err(QualityError::F32("NaN or an infinity in a long prompt or a full batch".to_owned()));
        }
        let rankings = rows.par_iter().map(|row| Ranking::of(row)).collect();
        let (_, ends) = workload.rows();
        let probes = probed(&ends).map(|row| (row, rows[row].clone())).collect();
        Ok(ExtendedReference {
            id: id(model, &workload),
            workload,
            rounding: Rounding::of(model),
            rankings,
            probes,
            states,
        })
    }

    /// Runs an engine of a class over the same, and compares.
    ///
    /// # Errors
    /// The device fails.
    pub fn evaluate(&self, engine: &mut Engine, class: PrecisionClass) -> Result<ExtendedQuality, QualityError> {
        let Results { rows, states } = run(&self.workload, engine)?;
        let positions = self.rankings.iter().zip(&rows).map(|(ranking, row)| Position {
            ranking,
            is_first: false,
            answer: Answer::Engine(row),
        });
        let mut errors = Errors::default();
        for (row, want) in &self.probes {
            errors.add(want, &rows[*row], false);
        }
        let of_states = states.iter().zip(&self.states).map(|(got, want)| relative_rms(got, want));
        let state_rms =
            of_states.fold(0.0, |worst: f64, rms| if rms.is_nan() { f64::INFINITY } else { worst.max(rms) });
        let judge = |class| {
            let [rms, _, kl] = errors.limits(&self.rounding, class);
            judge(&self.id, &self.rounding, (class, [rms, STATE_LIMIT * rms, kl]), positions.clone())
        };
        let agreements = class.and_coarser().map(judge).collect();
        let is_finite = rows.par_iter().all(|row| row.iter().all(|logit| logit.is_finite()));
        Ok(ExtendedQuality {
            agreements,
            rms: if is_finite { errors.rms } else { f64::INFINITY },
            max: errors.max,
            state_rms,
            kl: errors.kl(),
            checked: self.workload.checked(),
        })
    }

    /// That it is of that model and workload, as far as can be seen without running them.
    fn check(&self, workload: ExtendedWorkload, model: &Model) -> Result<(), &'static str> {
        let holds = |is_so: bool, what| if is_so { Ok(()) } else { Err(what) };
        let shape: &ModelShape = model.shape();
        let (rows, ends) = workload.rows();
        holds(self.id == id(model, &workload) && self.workload == workload, "the model or the workload")?;
        holds(self.rounding == Rounding::of(model), "what decides its rounding")?;
        holds(self.rankings.len() == rows, "the number of rankings")?;
        holds(self.rankings.iter().all(|ranking| ranking.fits(shape.vocab)), "a ranking")?;
        holds(self.probes.iter().map(|(row, _)| *row).eq(probed(&ends)), "the rows of its logits")?;
        for (row, logits) in &self.probes {
            let is_whole = logits.len() == shape.vocab as usize && logits.iter().all(|logit| logit.is_finite());
            holds(is_whole, "a row of logits")?;
            holds(self.rankings[*row] == Ranking::of(logits), "a ranking is not that of its logits")?;
        }
        let lengths = self.states.iter().map(Vec::len);
        holds(lengths.eq(workload.state_values(shape)), "the number of values of a state")?;
        holds(self.states.iter().flatten().all(|value| value.is_finite()), "a value of a state")?;
        let class = PrecisionClass::default();
        let positions =
            self.rankings.iter().map(|ranking| Position { ranking, is_first: false, answer: Answer::Reference });
        let expected = judge(&self.id, &self.rounding, (class, [0.0; 3]), positions);
        holds(expected.certified.0 >= LEAST_CERTIFIED, "too few positions are certified")
    }
}

/// The rows that are kept whole: of the ends of passes, the first ones, which differ most, and every 16th.
fn probed(ends: &[usize]) -> impl Iterator<Item = usize> {
    ends.iter().enumerate().filter(|(i, _)| *i < 16 || i % 16 == 0).map(|(_, row)| *row)
}

fn id(model: &Model, workload: &ExtendedWorkload) -> String {
    let lengths = (BATCHES, SETTLED, DECODED, STATE_VALUES, STATES_OF_BATCH, workload.passes());
    let setup = format!("{} {workload:?} {lengths:?} {:?}", model.fingerprint(), Rounding::of(model));
    blake3::hash(setup.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::small::model;
    use std::sync::Arc;
    use wgoose_runtime::CpuExecutor;

    type Edit = (&'static str, fn(&mut ExtendedReference));

    /// By someone who knows how to make a hash.
    const EDITS: [Edit; 12] = [
        ("the model or the workload", |r| r.id.push('0')),
        ("the model or the workload", |r| r.workload.sequences = 3),
        ("decides its rounding", |r| r.rounding.layers = 9),
        ("number of rankings", |r| drop(r.rankings.pop())),
        ("number of rankings", |r| r.rankings.push(r.rankings[0].clone())),
        ("a ranking", |r| r.rankings[2].gaps.clear()),
        ("rows of its logits", |r| r.probes.clear()),
        ("rows of its logits", |r| r.probes[1].0 = usize::MAX),
        ("row of logits", |r| r.probes[1].1.truncate(1)),
        ("not that of its logits", |r| r.probes[1].1.reverse()),
        ("number of values of a state", |r| drop(r.states.pop())),
        ("number of values of a state", |r| r.states[3].truncate(1)),
    ];

    #[test]
    fn an_edited_file_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let model = model(folder.path());
        let engine = Engine::new(Box::new(CpuExecutor::new(Arc::clone(&model), 8).unwrap()), 32);
        let cache = folder.path().join("cache");
        let reference = Reference::compute(&model, &wgoose_runtime::CancelToken::default()).unwrap();
        let workload = ExtendedWorkload::new(32, 8, false);
        let made = || ExtendedReference::cached(&model, &reference, &engine, workload, &cache).unwrap();
        let right = made();
        let path = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
        let found = || filed::read::<ExtendedReference>(&path).unwrap();
        assert_eq!((found(), right.check(workload, &model)), (right.clone(), Ok(())));
        for (why, edit) in EDITS {
            let mut edited = right.clone();
            edit(&mut edited);
            filed::write(&path, &edited).unwrap();
            let refused = found().check(workload, &model).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
            assert_eq!(made(), right, "{why}");
            assert_eq!(found(), right, "{why}");
        }
        // A disarmed one: nothing is certain, and no logit contradicts it.
        let mut edited = right.clone();
        edited.rankings.iter_mut().for_each(|ranking| ranking.gaps.fill(0.0));
        edited.probes.iter_mut().for_each(|(_, row)| row.fill(0.0));
        filed::write(&path, &edited).unwrap();
        assert_eq!(made(), right);
    }

    #[test]
    fn every_range_of_rows_has_a_pass() {
        assert_eq!(ExtendedWorkload::new(2048, 128, false).passes(), [1195, 299, 75, 19, 5, 2]);
        assert_eq!(ExtendedWorkload::new(64, 128, false).passes(), [19, 5, 2]);
        assert_eq!(ExtendedWorkload::new(65, 128, false).passes(), [65, 19, 5, 2]);
        let checked = |chunk, slots| ExtendedWorkload::new(chunk, slots, false).checked();
        assert_eq!(checked(2048, 128), Checked { tokens: 2 * 2048 + 515, sequences: 128 });
        assert_eq!((checked(64, 40).sequences, checked(64, 4).sequences), (32, 1));
    }
}
