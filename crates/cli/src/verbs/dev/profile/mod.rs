//! `wgoose dev profile`: rows by op or by layer against the ceilings of the device; tables, JSON, timelines, a picture.

mod picture;
mod report;
mod rows;
mod table;
mod timeline;

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::out;
use crate::progress::Moving;
use report::ProfileReport;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_measure::driver::{decode, decode_beside, prefill, prompts};
use wgoose_measure::timer::{AtLeast, WRITTEN, report};
use wgoose_runtime::kernel_bench::roofline;
use wgoose_runtime::{Batch, Engine, Executor, GpuExecutor, Outputs, Sequence};

/// Profile one pass: the time of each op, and how far it is from the device's roofline (`wgoose dev roofline`).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose dev profile model.gguf
  wgoose dev profile model.gguf --tokens 512 --layers
  wgoose dev profile model.gguf --tokens 300 --sequences 4 --beside 32
  wgoose dev profile model.gguf --svg step.svg --json > step.json")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Tokens of each sequence in the pass: 1 is decode, more is prefill.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    tokens: u32,
    /// Sequences in the pass (batch size).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: u32,
    /// Sequences that decode in the same pass, as in a batch that prefills beside decode.
    #[arg(long, value_name = "SEQUENCES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1024))]
    beside: u32,
    /// Runs of each kind of measurement.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Also print a row for each layer.
    #[arg(long)]
    layers: bool,
    /// Print the whole profile as JSON.
    #[arg(long)]
    json: bool,
    /// Write the whole profile to this file, as JSON.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    out: Option<PathBuf>,
    /// Write a timeline of the pass to this file, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    timeline: Option<PathBuf>,
    /// Draw the profile to this file, as SVG: a bar for each op, and the ops under the device's roofline.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    svg: Option<PathBuf>,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let (decoding, slots) = (args.beside as usize, (args.beside + args.sequences) as usize);
    let mut executor = args.options.executor(&args.model, slots)?;
    moving.say(&format!("compiling kernels, uploading weights, measuring {} runs each way", args.runs));
    let vocab = executor.shape().vocab;
    let decoded = prompts(decoding, 1, vocab);
    let prompts = prompts(args.sequences as usize, args.tokens as usize, vocab);
    let sequence = |(slot, tokens)| {
        let outputs = if decoding > 0 && slot >= decoding { Outputs::None } else { Outputs::Last };
        Sequence { slot, tokens: Vec::as_slice(tokens), outputs }
    };
    let sequences: Vec<Sequence<'_>> = decoded.iter().chain(&prompts).enumerate().map(sequence).collect();
    let batch = Batch::pack(&sequences, vocab, slots)?;
    let profile = executor.profile(&batch, args.runs as usize)?;
    let (device, plan) = (executor.device().fingerprint().clone(), executor.plan().hash());
    let in_use_ms = in_use(executor, decoding, &prompts, args.runs as usize)?;
    drop(moving);
    let roofline = args.options.cache_folder().and_then(|folder| roofline::load(&folder, &device));
    let model = args.model.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = ProfileReport::new(&profile, &in_use_ms, roofline.as_ref(), model, &device, plan);
    if let Some(path) = &args.out {
        out::file(path, &serde_json::to_vec_pretty(&report)?)?;
    }
    if let Some(path) = &args.timeline {
        let origin = Instant::now();
        crate::timeline::write(path, &timeline::of(&report, origin), origin)?;
    }
    if let Some(path) = &args.svg {
        out::file(path, picture::svg(&report).as_bytes())?;
    }
    match args.json {
        true => Ok(outln!("{}", serde_json::to_string_pretty(&report)?)),
        false => table::print(&report, args.layers),
    }
}

/// Milliseconds of the pass as people run it and `wgoose bench` times it: of decode a step of many.
fn in_use(executor: GpuExecutor, decoding: usize, prompts: &[Vec<u32>], runs: usize) -> Result<Vec<f64>, Failure> {
    let chunk = executor.plan().prefill_chunk as usize;
    let mut engine = Engine::new(Box::new(executor), chunk);
    let is_decode = decoding == 0 && prompts.iter().all(|prompt| prompt.len() == 1);
    let reported = report(AtLeast { runs, ms: 0.0 }, &mut |_| Ok(()), &mut || match is_decode {
        _ if decoding > 0 => decode_beside(&mut engine, decoding, prompts).map(|ns| vec![ns / 1e6]),
        true => decode(&mut engine, prompts.len(), WRITTEN).map(|written| vec![written.ns / 1e6]),
        false => prefill(&mut engine, prompts).map(|read| vec![read.ns / 1e6]),
    })?;
    let steps = if is_decode { f64::from(WRITTEN) } else { 1.0 };
    Ok(reported.samples_ms.concat().into_iter().map(|ms| ms / steps).collect())
}
