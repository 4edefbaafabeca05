//! One start: opens a model, reads a prompt, and says in one line of JSON what took how long.

use super::phases::busy;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::timeline::TimelineOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wgoose_measure::driver::prompts;
use wgoose_runtime::timeline::{Timeline, Track};
use wgoose_session::PlanReport;

/// Start once, for `bench --cold`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    #[arg(long)]
    model: PathBuf,
    /// Tokens of the prompt.
    #[arg(long)]
    prompt_tokens: u32,
    /// Folder of compiled pipelines, whatever the other options say.
    #[arg(long)]
    pipelines: PathBuf,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    options: RunOptions,
}

/// What a process says of its own start. Times are milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Startup {
    /// Adapter and driver.
    pub(super) device: String,
    /// The plan's name or file; none for the default plan.
    pub(super) plan: Option<String>,
    /// Hash of the first logits.
    pub(super) logits: String,
    /// Opening the model file, while the device is opened.
    pub(super) model_open_ms: f64,
    /// From the start of `main` until there is a session.
    pub(super) session_ready_ms: f64,
    /// From the start of `main` until the first logits.
    pub(super) first_logits_ms: f64,
    /// Weights uploaded.
    pub(super) uploaded_bytes: u64,
    /// While weights were under way to the device.
    pub(super) upload_ms: f64,
    /// Buffers through which they passed.
    pub(super) staging_bytes: u64,
    /// Pipelines compiled, and pipelines found on disk.
    pub(super) pipelines_compiled: u32,
    pub(super) pipelines_found: u32,
    /// Most memory of the device, in use and reserved, where the backend says.
    pub(super) device_used_bytes: Option<u64>,
    pub(super) device_reserved_bytes: Option<u64>,
    /// By track: time during which at least one span of it was open.
    pub(super) phases_ms: BTreeMap<String, f64>,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    // Always on: some hundred spans cost microseconds.
    let timeline = Timeline::on();
    let builder = args.options.session()?.timeline(timeline.clone()).pipeline_cache(Some(args.pipelines.clone()));
    let mut session = builder.open(&args.model)?;
    let session_ready = started.elapsed();
    let prompt = prompts(1, args.prompt_tokens as usize, session.model().shape().vocab).concat();
    let logits = session.prefill(&prompt)?;
    let first_logits = started.elapsed();

    let mut hash = blake3::Hasher::new();
    for x in &logits {
        hash.update(&x.to_le_bytes());
    }
    let report = session.load_report();
    let spans = timeline.spans();
    let model_open = spans.iter().find(|span| span.track == Track::Map && span.name == "open model");
    let model_open = model_open.map(|span| span.end.duration_since(span.start));
    let startup = Startup {
        device: session.device().map_or("CPU reference".into(), |d| format!("{}, {}", d.adapter, d.driver)),
        plan: session.plan().and_then(PlanReport::name),
        logits: hash.finalize().to_string(),
        model_open_ms: model_open.map_or(0.0, ms),
        session_ready_ms: ms(session_ready),
        first_logits_ms: ms(first_logits),
        uploaded_bytes: report.uploaded,
        upload_ms: report.upload_seconds * 1e3,
        staging_bytes: report.peak_staging,
        pipelines_compiled: report.pipelines.compiled,
        pipelines_found: report.pipelines.found,
        device_used_bytes: report.peak_device.map(|m| m.used),
        device_reserved_bytes: report.peak_device.map(|m| m.reserved),
        phases_ms: busy(&spans).into_iter().map(|(t, time)| (t.name().to_owned(), ms(time))).collect(),
    };
    outln!("{}", serde_json::to_string(&startup)?);
    args.timeline.write(&timeline, started)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
