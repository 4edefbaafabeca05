//! Measures a session the way its user meets it.

use crate::progress::{reported, say};
use crate::record::BenchRecord;
use crate::{BenchError, BenchProgress, Subject, Watch, ms, process_memory};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wgoose_measure::driver::{decode, prefill, prompts};
use wgoose_measure::quality::{QualityError, Reference};
use wgoose_measure::stats::summary::median;
use wgoose_measure::timer::AtLeast;
use wgoose_runtime::{CancelToken, RuntimeError};
use wgoose_session::SessionError;

/// Tokens of the prompt that is timed until its logits are there.
const FIRST_PROMPT: usize = 32;

/// How much to measure.
pub struct Load {
    /// Tokens of the prompt whose reading is timed.
    pub prefill_tokens: usize,
    /// Sequences of batched decode.
    pub sequences: usize,
    /// Tokens generated for each.
    pub decode_tokens: usize,
    /// How many samples of each there are, after a warm-up.
    pub at_least: AtLeast,
}

/// Benchmarks one configuration. `cache` is a folder where the quality reference is kept; `watch` is told what is going
/// on; `cancel` is looked at while the reference is computed.
///
/// # Errors
/// It cannot be run, or gives wrong results.
pub fn measure(
    model: &Path,
    subject: &Subject,
    load: &Load,
    title: &str,
    change: &str,
    cache: Option<&Path>,
    cancel: &CancelToken,
    watch: &mut Watch<'_>,
) -> Result<BenchRecord, BenchError> {
    say(watch, BenchProgress::Opening)?;
    let start = Instant::now();
    let mut session = subject.builder.clone().open(model)?;
    let load_ms = ms(start);
    let vocab = session.model().shape().vocab;
    let first_prompt = prompts(1, FIRST_PROMPT, vocab).concat();
    session.prefill(&first_prompt)?;
    let first_token_ms = ms(start);
    drop(session);
    let mut configured = subject.engine(model, load.sequences)?;
    let engine = &mut configured.engine;
    let prompt = prompts(1, load.prefill_tokens, vocab);
    let mut sample = |what, run: &mut dyn FnMut() -> Result<Vec<f64>, BenchError>| {
        reported(what, load.at_least, watch, run).map(|reported| reported.samples_ms.concat())
    };
    let prefill_ms = sample("reading the prompt", &mut || Ok(vec![prefill(engine, &prompt)?.ns / 1e6]))?;
    let mut encoding = Vec::new();
    let decode_ms = sample("writing", &mut || {
        let written = decode(engine, load.sequences, load.decode_tokens as u32)?;
        encoding.extend(written.report.map(|report| report.encode_seconds * 1e9 / written.ns));
        Ok(vec![written.ns / 1e6])
    })?;
    drop(configured);
    let peak_memory_mib = process_memory::of(std::process::id()).map(|m| m.peak_resident as f64 / f64::from(1 << 20));

    say(watch, BenchProgress::Checking)?;
    // After everything is timed: the reference runs on the CPU and takes memory of its own.
    let mut configured = subject.engine(model, Reference::SLOTS)?;
    let opened = subject.builder.open_file(model).map_err(SessionError::from)?;
    let reference = match cache {
        Some(folder) => Reference::cached(&opened, folder, cancel),
        None => Reference::compute(&opened, cancel),
    };
    let reference = reference.map_err(|error| match error {
        QualityError::Runtime(RuntimeError::Cancelled) => BenchError::Stopped,
        error => error.into(),
    })?;
    let quality = reference.evaluate(&mut configured.engine, configured.class)?;
    if !quality.passed() {
        return Err(BenchError::Wrong(quality.to_string()));
    }
    let rate = |tokens: usize, times: &[f64]| tokens as f64 / median(times).unwrap_or(f64::NAN) * 1e3;
    Ok(BenchRecord {
        title: title.to_owned(),
        change: change.to_owned(),
        at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        model: model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        fingerprint: opened.fingerprint().to_string(),
        device: configured.device,
        plan: configured.plan.map_or("none".to_owned(), |p| p.hash()),
        prefill_chunk: configured.engine.chunk() as u32,
        prefill_tokens: load.prefill_tokens,
        sequences: load.sequences,
        decode_tokens: load.decode_tokens,
        encode_share: median(&encoding),
        load_ms,
        first_token_ms,
        prefill_tok_s: rate(load.prefill_tokens, &prefill_ms),
        decode_tok_s: rate(load.decode_tokens * load.sequences, &decode_ms),
        peak_memory_mib,
        quality_hash: quality.hash().to_owned(),
        quality_class: Some(configured.class),
        quality_decisions: Some(quality.own().decisions),
        prefill_ms,
        decode_ms,
    })
}
