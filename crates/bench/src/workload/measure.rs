//! The jobs of a report, one after another on one model: first the jobs of a session, then the jobs of an engine with
//! as many sequences as they need.

use super::{BATCH, CHAT, DOCUMENT, Environment, FIELDS, Job, Row, Workload, WorkloadReport, references};
use crate::progress::{reported, say};
use crate::{BenchError, BenchProgress, Subject, Watch, ms};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wgoose_graph::{LayerWeight, ModelShape, Weight};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_measure::driver::{Begin, Drive, decode, prefill, prompts, read, settle, write};
use wgoose_measure::timer::{AtLeast, Reported};
use wgoose_runtime::{CancelToken, Engine, StateData, WGPU_VERSION};
use wgoose_session::{EmbedOptions, Session, SessionError};

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// Named workloads; [`Workload::Cold`] is the caller's: it takes fresh processes.
    pub workloads: Vec<Workload>,
    /// Lengths of prompts that are read alone.
    pub prompts: Vec<usize>,
    /// Prompts in one call: how many, and the tokens of each.
    pub packed: Vec<(usize, usize)>,
    /// Numbers of sequences that are continued together.
    pub decodes: Vec<usize>,
    /// By how many tokens these are continued.
    pub decode_tokens: usize,
    /// How many samples of each there are, after a warm-up of its own: disturbances last for hundreds of short ones.
    pub at_least: AtLeast,
}

impl Jobs {
    /// Prompts and sequences that are asked for by number, no workloads.
    pub fn plain(&self) -> Vec<Job> {
        let prompts = self.prompts.iter().map(|tokens| Job::Prompt(*tokens));
        let decodes = self.decodes.iter().map(|sequences| Job::Decode(*sequences, self.decode_tokens));
        prompts.chain(decodes).collect()
    }

    /// Most sequences at once.
    fn slots(&self) -> usize {
        let batch = self.workloads.contains(&Workload::Batch).then_some(BATCH[0]);
        let packed = self.packed.iter().map(|(sequences, _)| *sequences);
        packed.chain(self.decodes.iter().copied()).chain(batch).max().unwrap_or(1)
    }
}

/// The rows so far, and how more are measured.
struct Rows<'a> {
    rows: Vec<Row>,
    at_least: AtLeast,
    watch: &'a mut Watch<'a>,
}

impl Rows<'_> {
    /// Measures what is made of one or more jobs: a run gives the milliseconds of each.
    fn measure(
        &mut self,
        workload: &'static str,
        jobs: &[Job],
        run: &mut dyn FnMut() -> Result<Vec<f64>, BenchError>,
    ) -> Result<(), BenchError> {
        let what = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let Reported { warm_up, samples_ms } = reported(&what, self.at_least, self.watch, run)?;
        let of =
            jobs.iter().zip(samples_ms).filter_map(|(job, samples)| Row::new(workload, *job, Some(warm_up), samples));
        self.rows.extend(of);
        Ok(())
    }
}

/// Measures jobs in the order in which [`Jobs`] has them, the workloads in that of [`Workload::ALL`]; `watch` is told
/// what is going on. Answers are not checked here: that is the quality gate's work.
///
/// # Errors
/// The model, the device or the plan; or there is no room for so many sequences.
pub fn measure<'a>(
    model: &Path,
    subject: &Subject,
    jobs: &Jobs,
    watch: &'a mut Watch<'a>,
) -> Result<WorkloadReport, BenchError> {
    say(watch, BenchProgress::Opening)?;
    let mut rows = Rows { rows: Vec::new(), at_least: jobs.at_least, watch };
    let of_session = |w: &&Workload| matches!(w, Workload::Document | Workload::Fields);
    if jobs.workloads.iter().any(|w| of_session(&w)) {
        let mut session = subject.builder.clone().open(model)?;
        for workload in Workload::ALL.iter().filter(of_session).filter(|w| jobs.workloads.contains(w)) {
            match workload {
                Workload::Document => document(&mut session, &mut rows)?,
                _ => fields(&mut session, &mut rows)?,
            }
        }
    }
    let mut configured = subject.engine(model, jobs.slots())?;
    let engine = &mut configured.engine;
    if jobs.workloads.contains(&Workload::Chat) {
        chat(engine, &mut rows)?;
    }
    if jobs.workloads.contains(&Workload::Batch) {
        batch(engine, &mut rows)?;
    }
    let vocab = engine.shape().vocab;
    for tokens in &jobs.prompts {
        let prompts = prompts(1, *tokens, vocab);
        rows.measure("prompt", &[Job::Prompt(*tokens)], &mut || Ok(vec![prefill(engine, &prompts)?.ns / 1e6]))?;
    }
    for (sequences, tokens) in &jobs.packed {
        let prompts = prompts(*sequences, *tokens, vocab);
        rows.measure("packed", &[Job::Packed(*sequences, *tokens)], &mut || {
            Ok(vec![prefill(engine, &prompts)?.ns / 1e6])
        })?;
    }
    for sequences in &jobs.decodes {
        rows.measure("decode", &[Job::Decode(*sequences, jobs.decode_tokens)], &mut || {
            Ok(vec![decode(engine, *sequences, jobs.decode_tokens as u32)?.ns / 1e6])
        })?;
    }
    let opened = subject.builder.open_file(model).map_err(SessionError::from)?;
    let environment = Environment {
        at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        wgpu: WGPU_VERSION,
        model: model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        file_bytes: opened.file_len() as u64,
        fingerprint: opened.fingerprint().to_string(),
        size: ModelShape::PRESETS.iter().find(|(_, shape)| shape == opened.shape()).map(|(name, _)| *name),
        formats: formats(&opened),
        parameters: parameters(opened.shape()),
        prefill_chunk: configured.engine.chunk(),
        plan: configured.plan.map(|plan| plan.hash()),
        plan_file: configured.plan_name,
        device: configured.device,
    };
    let mut report = WorkloadReport { environment, rows: rows.rows };
    report.refer();
    Ok(report)
}

impl WorkloadReport {
    /// Gives every row what is known of others.
    pub fn refer(&mut self) {
        let WorkloadReport { environment: Environment { size, formats, .. }, rows } = self;
        rows.iter_mut().for_each(|row| row.references = references(*size, *formats, row.job));
    }
}

/// Number of weights of a model.
fn parameters(shape: &ModelShape) -> u64 {
    Weight::all(shape).map(|weight| weight.shape(shape).map(u64::from)).map(|[rows, cols]| rows * cols).sum()
}

/// The name of a model's mix of formats, by its largest matrices and its head; `None` without a head.
fn formats(model: &Model) -> Option<&'static str> {
    if !model.shape().output_head {
        return None;
    }
    let [matrix, head] = [Weight::Layer(0, LayerWeight::FfnKey), Weight::Head].map(|w| model.tensor(w).format());
    Mix::ALL.into_iter().find(|mix| mix.matrix() == matrix && mix.in_gguf(Weight::Head) == head).map(Mix::name)
}

fn document(session: &mut Session, rows: &mut Rows<'_>) -> Result<(), BenchError> {
    let tokens = prompts(1, DOCUMENT, session.model().shape().vocab).concat();
    rows.measure(Workload::Document.name(), &[Job::Document(DOCUMENT)], &mut || {
        session.reset()?;
        let begun = Instant::now();
        session.state_after(&tokens)?;
        Ok(vec![ms(begun)])
    })
}

fn fields(session: &mut Session, rows: &mut Rows<'_>) -> Result<(), BenchError> {
    let options = EmbedOptions::default();
    let vocab = session.model().shape().vocab;
    let fields: Vec<Vec<u32>> = prompts(FIELDS.len(), FIELDS[FIELDS.len() - 1], vocab)
        .into_iter()
        .zip(FIELDS)
        .map(|(tokens, len)| tokens[..len].to_vec())
        .collect();
    rows.measure(Workload::Fields.name(), &[Job::FieldsTogether], &mut || {
        let begun = Instant::now();
        session.embed_batch(&fields, &options, &CancelToken::default())?;
        Ok(vec![ms(begun)])
    })?;
    rows.measure(Workload::Fields.name(), &[Job::FieldsAlone], &mut || {
        let begun = Instant::now();
        fields.iter().try_for_each(|field| session.embed(field, &options).map(drop))?;
        Ok(vec![ms(begun)])
    })
}

fn chat(engine: &mut Engine, rows: &mut Rows<'_>) -> Result<(), BenchError> {
    let [history, question, answer] = CHAT;
    let vocab = engine.shape().vocab;
    engine.reset(0..1)?;
    let history = engine.state_after(0, &prompts(1, history, vocab).concat())?;
    let question = prompts(2, question, vocab).split_off(1);
    rows.measure(Workload::Chat.name(), &[Job::FirstToken, Job::Decode(1, answer)], &mut || {
        let Turn { first_ms, decode_ms, .. } = turn(engine, &question, answer, Some(&history))?;
        Ok(vec![first_ms, decode_ms])
    })
}

fn batch(engine: &mut Engine, rows: &mut Rows<'_>) -> Result<(), BenchError> {
    let [sequences, tokens, answer] = BATCH;
    let prompts = prompts(sequences, tokens, engine.shape().vocab);
    let jobs = [Job::Packed(sequences, tokens), Job::Decode(sequences, answer)];
    rows.measure(Workload::Batch.name(), &jobs, &mut || {
        let Turn { read_ms, decode_ms, .. } = turn(engine, &prompts, answer, None)?;
        Ok(vec![read_ms, decode_ms])
    })
}

/// Prompts read and continued together. All times are in milliseconds.
struct Turn {
    /// Reading the prompts, in one call, until the last logits of each are there.
    read_ms: f64,
    /// From the same beginning until the first tokens are chosen.
    first_ms: f64,
    /// From the logits of the prompts until all tokens are chosen.
    decode_ms: f64,
}

/// Reads a prompt for each sequence, after that state or none, and continues each by `tokens` tokens.
fn turn(
    engine: &mut Engine,
    prompts: &[Vec<u32>],
    tokens: usize,
    state: Option<&StateData>,
) -> Result<Turn, BenchError> {
    settle(engine, prompts.len(), state)?;
    let prompt = read(engine, 0, prompts)?;
    let written = write(engine, 0, Begin::Logits(&prompt.logits), tokens as u32, &Drive::default())?;
    Ok(Turn { read_ms: prompt.ns / 1e6, first_ms: (prompt.ns + written.first_ns) / 1e6, decode_ms: written.ns / 1e6 })
}
