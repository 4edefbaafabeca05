//! `wgoose bench`: how fast models read and write, whole sessions by title, named workloads, and the first token of
//! fresh processes.

mod cold;
mod community;
mod compare;
mod export;
mod picture;
mod report;
mod server;
mod speeds;
mod table;
mod titled;
mod workloads;

pub(crate) use cold::child;

use crate::failure::Failure;
use crate::options::{RunOptions, one_of_plans};
use cold::ColdOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use wgoose_bench::workload::Row;
use wgoose_bench::{RecordError, Records};
use wgoose_measure::timer::{AtLeast, WRITTEN};
use wgoose_session::{PlanChoice, printable};
use workloads::{Form, WorkloadOptions};

/// Runs without `--runs`.
const RUNS: u32 = 6;

/// Without `--runs`, what is short is run for so many milliseconds.
const RUNS_MS: f64 = 1000.0;

/// Measure prefill and decode speed.
///
/// By default: prefill of 512 tokens, then decode of 128 tokens at batch size 1, for each model and plan in turn. With
/// --title and --change it measures whole sessions, including loading and memory, and checks their answers; --save
/// appends the results to a report, which compares runs of the same title.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  wgoose bench model.gguf
  wgoose bench small.gguf large.gguf --format md
  wgoose bench model.gguf --plans found,default
  wgoose bench model.gguf -p 32,512,2048 --decode 1,8,32
  wgoose bench model.gguf --workload all
  wgoose bench model.gguf --title \"my GPU\" --change \"new driver\" --save benchmarks.md
  wgoose bench model.gguf --against llama-bench
  wgoose bench compare before.jsonl after.jsonl --fail-on slow
  wgoose bench server http://127.0.0.1:8080 --clients 1,8,32")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Model files.
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// Plans to measure with: `found` (the one used without this option), `default`, or a file.
    #[arg(long, value_name = "found|default|FILE", value_delimiter = ',', conflicts_with_all = ["plan", "cold"])]
    #[arg(value_parser = one_of_plans())]
    plans: Vec<PlanChoice>,
    /// Name of the work in progress; benchmarks with the same title are compared.
    #[arg(long, requires = "change", allow_hyphen_values = true)]
    title: Option<String>,
    /// Name of the change that this run measures.
    #[arg(long, requires = "title", allow_hyphen_values = true)]
    change: Option<String>,
    /// Append to this report. Its records are stored next to it, with the extension .jsonl.
    #[arg(long, value_name = "FILE", requires = "title", value_parser = crate::options::beside_lines())]
    save: Option<PathBuf>,
    /// With --title: folder that caches the quality reference between runs.
    #[arg(long, value_name = "DIR", requires = "title")]
    cache: Option<PathBuf>,
    /// With --title: length of the prefill, in tokens.
    #[arg(long, requires = "title", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    prefill_tokens: u32,
    /// Tokens that each sequence decodes.
    #[arg(short = 'n', long, default_value_t = WRITTEN, value_parser = clap::value_parser!(u32).range(1..))]
    decode_tokens: u32,
    /// With --title: batch size of decode.
    #[arg(long, requires = "title", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: u32,
    /// Samples of each measurement; fewer than 6 give no verdict in `bench compare` [default: at least 6 and 1 s].
    #[arg(short = 'r', long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Form::Table, conflicts_with_all = ["title", "cold"])]
    format: Form,
    /// Print JSON.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    workloads: WorkloadOptions,
    #[command(flatten)]
    cold: ColdOptions,
    #[command(flatten)]
    options: RunOptions,
}

/// What is done with records; a model of such a name is `./compare`.
#[derive(clap::Subcommand)]
enum Command {
    Compare(compare::Args),
    Server(server::Args),
}

impl Args {
    fn plans(&self) -> Vec<PlanChoice> {
        if self.plans.is_empty() { vec![self.options.plan()] } else { self.plans.clone() }
    }

    fn runs(&self) -> u32 {
        self.runs.unwrap_or(RUNS)
    }

    /// How many samples of each measurement there are.
    fn at_least(&self) -> AtLeast {
        AtLeast { runs: self.runs() as usize, ms: if self.runs.is_some() { 0.0 } else { RUNS_MS } }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Some(Command::Compare(args)) => return compare::run(args),
        Some(Command::Server(args)) => return server::run(args),
        None => {}
    }
    // Before minutes of measuring.
    let builder = args.options.session()?;
    args.models.iter().try_for_each(|model| builder.open_file(model).map(drop))?;
    let (rows, cold) = (&args.workloads, &args.cold);
    match (&args.title, &args.change) {
        _ if cold.cold => {
            let out = (args.json, rows.out_record.as_deref());
            let of = (args.runs(), rows.cold_prompt()?);
            args.models.iter().try_for_each(|model| cold::run(model, of, out, cold, &args.options))
        }
        (Some(title), Some(change)) => titled::run(args, title, change),
        _ => workloads::run(args),
    }
}

/// How many runs rows are medians of: `6`, or `6 to 256`.
fn counts<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    let counts = rows.map(|row| row.samples_ms.len());
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    }
}

/// Opens a file of records; what is wrong with it is said on stderr.
fn open<T: Serialize + DeserializeOwned>(path: &Path) -> Result<Records<T>, RecordError> {
    let mut records = Records::open(path)?;
    records.notices.drain(..).for_each(|notice| eprintln!("{}", printable(&notice)));
    Ok(records)
}
