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

/// Options that `bench` takes with `--cold` only. A condition of its own for `title`: where it conflicts with `cold`, clap
/// waives that `cold` is required.
#[derive(clap::Args)]
pub(crate) struct ColdOptions {
    /// Measure the first token of fresh processes instead: with and without compiled pipelines kept on disk.
    #[arg(long, conflicts_with_all = ["title", "change", "out", "cache", "prefill_tokens", "decode_tokens", "sequences"])]
    pub(crate) cold: bool,
    /// With --cold: tokens of the prompt.
    #[arg(long, requires = "cold", conflicts_with = "title", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    prompt_tokens: u32,
    /// With --cold: also start with none of the model file in memory.
    #[arg(long, requires = "cold", conflicts_with = "title")]
    drop_page_cache: bool,
    /// With --cold: write when what happened in one more start, all warm, to this file, as a trace for ui.perfetto.dev.
    #[arg(long, requires = "cold", conflicts_with = "title", value_name = "FILE", value_parser = place)]
    trace: Option<PathBuf>,
    /// With --cold: append the report to this file, one line of JSON.
    #[arg(long, requires = "cold", conflicts_with = "title", value_name = "FILE", value_parser = place)]
    out_record: Option<PathBuf>,
}

/// `wgoose bench --cold`: every condition `runs` times.
pub(crate) fn run(model: &Path, runs: u32, json: bool, cold: &ColdOptions, run: &RunOptions) -> Result<(), Failure> {
    if let BackendName::Cpu = run.backend {
        return Err("the CPU reference has nothing to warm up: leave out --backend cpu".into());
    }
    let report = parent::measure(model, runs, cold, run)?;
    if let Some(path) = &cold.out_record {
        record::append(path, &report).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        outln!("{report}");
    }
    Ok(())
}
