//! `wgoose tune`

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::Precision;
use wgoose_loader::Model;
use wgoose_runtime::DeviceOptions;
use wgoose_runtime::lab::open_measured;
use wgoose_tuner::objective::Objective;
use wgoose_tuner::sweep::{Event, SweepOptions, sweep};

/// Find the best plan for a model on this device: every candidate is checked against the reference, then timed.
///
/// Every measurement is appended to the ledger; an interrupted sweep, run again, goes on where it was.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// Where the plan goes.
    #[arg(long, value_parser = crate::options::beside_lines)]
    out: PathBuf,
    /// Where measurements are kept; default: beside the plan, with the extension .jsonl.
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Seconds to spend, everything counted.
    #[arg(long, default_value_t = 300)]
    budget: u64,
    /// Try every legal configuration, whatever hunches about speed say and whatever the budget.
    #[arg(long)]
    exhaustive: bool,
    /// Prefill chunks to compare; default 16,32,64,128 on a CPU device, else 64,256,1024,2048,4096.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    chunks: Vec<u32>,
    /// What the plan is to be good at: chat, embed, batch, or a file: (name: "mine", parts: [(tokens: 1, weight: 0.5), (tokens: 300,
    /// sequences: 2, weight: 0.5)]); tokens: 1 is decoding.
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    /// Also tune batched decode of this many sequences.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1024))]
    sequences: Option<u32>,
    /// Also try kernels that round activations to int8: faster, and not quite the numbers of f32. They have a quality
    /// gate of their own, and `wgoose info` names them in the plan.
    #[arg(long)]
    allow_int8: bool,
    /// Adapter: an index of `wgoose devices`, or a part of its name.
    #[arg(long)]
    device: Option<String>,
    #[command(flatten)]
    kernels: crate::options::KernelOptions,
    #[command(flatten)]
    cache: crate::options::CacheOptions,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    if args.ledger.as_ref() == Some(&args.out) {
        return Err(format!("{}: the plan and the measurements need a file each", args.out.display()).into());
    }
    let model = Arc::new(Model::open(&args.model)?);
    let (adapter, cache) = (args.device.clone(), args.cache.folder());
    let device = open_measured(&DeviceOptions { adapter, cache, ..DeviceOptions::default() })?;
    let chunks = match args.chunks.as_slice() {
        [] => SweepOptions::default_chunks(&device),
        given => given.to_vec(),
    };
    let workload = Objective::named(&args.workload, device.is_cpu())?;
    let objective = args.sequences.map_or(workload.clone(), |sequences| workload.and_together(sequences));
    let options = SweepOptions {
        ledger: args.ledger.clone().unwrap_or_else(|| args.out.with_extension("jsonl")),
        begun: started,
        budget: Duration::from_secs(args.budget),
        exhaustive: args.exhaustive,
        chunks,
        objective,
        persistent: !device.is_cpu(),
        catalogue: args.kernels.catalogue_in_part()?,
        allowed: if args.allow_int8 { Precision::Q8 } else { Precision::F16 },
    };
    eprintln!("tuning {} on {}, about {} s", args.model.display(), device.fingerprint().adapter, args.budget);
    let style = ProgressStyle::with_template("{prefix:>32} {bar:30} {pos}/{len} {elapsed}")?;
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    let swept = sweep(&device, &model, &options, &mut |event| {
        match event {
            Event::Stage { stage, steps } => {
                bar.set_prefix(stage.name());
                bar.set_length(steps as u64);
                bar.set_position(0);
                say(&bar, &format!("-- {stage}"));
            }
            Event::Done(step) => {
                bar.inc(1);
                say(&bar, &format!("   {step}"));
            }
            Event::Note(_) => say(&bar, &format!("   {event}")),
        }
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    swept.plan.save(&args.out)?;
    outln!(
        "{}: {} kernels chosen, chunk {}; {} experiments measured, {} taken from the ledger",
        args.out.display(),
        swept.plan.choices.len(),
        swept.plan.prefill_chunk,
        swept.measured,
        swept.recalled,
    );
    Ok(())
}

/// Above the bar on a terminal, plainly elsewhere.
fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { eprintln!("{line}") } else { bar.println(line) }
}
