//! Cold starts: how long a user waits for the first token of a process that has just been started.
//!
//! The parent ([`parent`]) starts this program again and again ([`process`]), each time as a [`child`] that opens the
//! model, reads one prompt, says what it did when, and ends. What is warm and what is cold is prepared before each start:
//! the pages of the model file ([`pages`]) and our folder of compiled pipelines. The drivers' own shader caches are off.
//! The program itself, its libraries and the plan are always warm.

pub(crate) mod child;
mod pages;
mod parent;
mod phases;
mod process;
mod report;

use crate::Failure;
use crate::options::{BackendName, RunOptions, place};
use std::path::{Path, PathBuf};
use wgoose_bench::record;

/// What else `bench` can be asked for. Where these conflict with `cold`, clap waives that `cold` is required.
const OTHERS: [&str; 4] = ["title", "workload", "packed", "decode"];

/// Options that `bench` takes with `--cold` only.
#[derive(clap::Args)]
pub(super) struct ColdOptions {
    /// Measure the first token of fresh processes instead: with and without compiled pipelines kept on disk.
    #[arg(long, conflicts_with_all = ["title", "change", "out", "cache", "prefill_tokens", "decode_tokens", "sequences"])]
    pub(super) cold: bool,
    /// With --cold: also start with none of the model file in memory.
    #[arg(long, requires = "cold", conflicts_with_all = OTHERS)]
    drop_page_cache: bool,
    /// With --cold: write when what happened in one more start, all warm, to this file, as a trace for ui.perfetto.dev.
    #[arg(long, requires = "cold", conflicts_with_all = OTHERS, value_name = "FILE", value_parser = place)]
    trace: Option<PathBuf>,
}

/// Tokens of the prompt where none are named.
pub(super) const PROMPT: u32 = 32;

/// `wgoose bench --cold`: every condition `runs` times, with a prompt of so many tokens.
pub(super) fn run(
    model: &Path,
    (runs, prompt_tokens): (u32, u32),
    (json, out_record): (bool, Option<&Path>),
    cold: &ColdOptions,
    run: &RunOptions,
) -> Result<(), Failure> {
    check(run)?;
    let report = parent::measure(model, runs, prompt_tokens, cold, run)?;
    if let Some(path) = out_record {
        record::append(path, &report).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        outln!("{report}");
    }
    Ok(())
}

/// The times of fresh processes from their start to the first logits, in milliseconds: with compiled pipelines kept on
/// disk, and without.
pub(super) fn starts(
    model: &Path,
    (runs, prompt_tokens): (u32, u32),
    run: &RunOptions,
) -> Result<[Vec<f64>; 2], Failure> {
    check(run)?;
    let none = ColdOptions { cold: true, drop_page_cache: false, trace: None };
    let (conditions, _) = parent::starts(model, runs, prompt_tokens, &none, run)?;
    let mut times = conditions.iter().map(|c| c.samples.iter().map(|s| s.wall_ms).collect());
    Ok([times.next().unwrap_or_default(), times.next().unwrap_or_default()])
}

fn check(run: &RunOptions) -> Result<(), Failure> {
    match run.backend {
        BackendName::Cpu => Err("the CPU reference has nothing to warm up: leave out --backend cpu".into()),
        BackendName::Gpu => Ok(()),
    }
}
