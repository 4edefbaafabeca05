//! `wgoose bench`: whole sessions by title, named workloads, and the first token of fresh processes.

mod cold;
mod report;
mod workloads;

pub(crate) use cold::child;

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::out;
use cold::ColdOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use wgoose_bench::{Load, Record, RecordError, Records, measure};
use wgoose_loader::Model;
use wgoose_session::printable;
use wgoose_tuner::stats::Summary;
use workloads::WorkloadOptions;

/// Benchmark a session and append the result to the benchmarks, beside what was measured under the same title.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    #[arg(long)]
    model: PathBuf,
    /// What is being worked on; benchmarks of one title are compared.
    #[arg(long, required_unless_present_any = ["cold", "workload", "prompt_tokens", "packed", "decode"])]
    title: Option<String>,
    /// What is different this time.
    #[arg(long, required_unless_present_any = ["cold", "workload", "prompt_tokens", "packed", "decode"])]
    change: Option<String>,
    /// The report; its records lie beside it, with the extension .jsonl.
    #[arg(long, default_value = "optimization_plan/benchmarks.md", value_parser = crate::options::beside_lines)]
    out: PathBuf,
    /// Where the quality reference is kept between runs.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Tokens of the prompt whose reading is timed.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    prefill_tokens: u32,
    /// Tokens generated.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    decode_tokens: u32,
    /// Sequences decoded together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: u32,
    /// How often each is measured; at least 5 for figures that are passed on.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    workloads: WorkloadOptions,
    #[command(flatten)]
    cold: ColdOptions,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (rows, cold) = (&args.workloads, &args.cold);
    if cold.cold {
        let out = (args.json, rows.out_record.as_deref());
        return cold::run(&args.model, (args.runs, rows.cold_prompt()?), out, cold, &args.options);
    }
    // Without rows of a table both are there: clap asks for them.
    let (Some(title), Some(change)) = (&args.title, &args.change) else {
        let load = (args.runs, args.decode_tokens);
        return workloads::run(&args.model, load, args.json, rows, &args.options);
    };
    let load = Load {
        prefill_tokens: args.prefill_tokens as usize,
        decode_tokens: args.decode_tokens as usize,
        sequences: args.sequences as usize,
        runs: args.runs as usize,
    };
    let subject = args.options.subject()?;
    // Before minutes of measuring.
    Model::open(&args.model)?;
    let mut records: Records<Record> = open(&args.out.with_extension("jsonl"))?;
    let result = measure(&args.model, &subject, &load, title, change, args.cache.as_deref())?;
    records.append(result.clone())?;
    out::file(&args.out, report::markdown(&records.known).as_bytes())?;
    if args.json {
        outln!("{}", serde_json::to_string(&result)?);
        return Ok(());
    }
    outln!("{} on {}", result.model, result.device);
    outln!("load            {:>10.1} ms", result.load_ms);
    outln!("first token     {:>10.1} ms (loading and a prompt of 32 tokens)", result.first_token_ms);
    outln!(
        "prefill         {:>10.1} tokens/s ({} tokens, chunk {})",
        result.prefill_tok_s,
        result.prefill_tokens,
        result.prefill_chunk
    );
    outln!(
        "decode          {:>10.1} tokens/s ({} tokens, {} at once)",
        result.decode_tok_s,
        result.decode_tokens,
        result.sequences
    );
    if let Some(share) = result.encode_share {
        outln!("encoding steps  {:>10.1} % of that time on the CPU", share * 100.0);
    }
    for (what, times) in [("prefill", &result.prefill_ms), ("decode", &result.decode_ms)] {
        if let Some(s) = Summary::of(times) {
            outln!(
                "{what:<8} spread {:>10.1} to {:.1} ms, half of the runs within {:.1} ms",
                s.min,
                times.iter().copied().fold(s.min, f64::max),
                s.iqr
            );
        }
    }
    if let Some(peak) = result.peak_memory_mib {
        outln!("peak memory     {peak:>10.1} MiB");
    }
    outln!("quality hash    {}", result.quality_hash);
    outln!("appended to {}", args.out.display());
    Ok(())
}

/// Opens a file of records; what is wrong with it is said on stderr.
fn open<T: Serialize + DeserializeOwned>(path: &Path) -> Result<Records<T>, RecordError> {
    let mut records = Records::open(path)?;
    records.notices.drain(..).for_each(|notice| eprintln!("{}", printable(&notice)));
    Ok(records)
}
