//! Measures a session the way its user meets it.

use crate::progress::say;
use crate::record::BenchRecord;
use crate::{BenchError, BenchProgress, Subject, Watch, decode, ms, process_memory, prompt};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wgoose_measure::quality::{QualityError, Reference};
use wgoose_measure::stats::summary::median;
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
    /// How often each is measured, after one that is not counted.
    pub runs: usize,
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
    let prompt = prompt(load.prefill_tokens.max(FIRST_PROMPT) as u32, vocab);
    session.prefill(&prompt[..FIRST_PROMPT])?;
    let first_token_ms = ms(start);

    let mut prefill_ms = Vec::new();
    for run in 0..=load.runs {
        say(watch, decode::progress("reading the prompt", run, load.runs))?;
        session.reset()?;
        let begun = Instant::now();
        session.prefill(&prompt[..load.prefill_tokens])?;
        if run > 0 {
            prefill_ms.push(ms(begun));
        }
    }
    drop(session);
    let mut configured = subject.engine(model, load.sequences)?;
    let decoded = decode::measure(&mut configured.engine, load, watch)?;
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
        encode_share: decoded.encode_share,
        load_ms,
        first_token_ms,
        prefill_tok_s: rate(load.prefill_tokens, &prefill_ms),
        decode_tok_s: rate(load.decode_tokens * load.sequences, &decoded.ms),
        peak_memory_mib,
        quality_hash: quality.hash().to_owned(),
        quality_class: Some(configured.class),
        quality_decisions: Some(quality.own().decisions),
        prefill_ms,
        decode_ms: decoded.ms,
    })
}
