//! Cold starts: how long a user waits for the first token of a process that has just been started.
//!
//! The parent ([`parent`]) starts this program again and again ([`process`]), each time as a [`child`] that opens the
//! model, prefills one prompt, reports its times and ends. Before each start the parent warms or cools the pages of the
//! model file ([`pages`]) and our folder of compiled pipelines. The drivers' own shader caches are off. The program
//! itself, its libraries and the plan are always warm.

pub(crate) mod child;
mod options;
mod pages;
mod parent;
mod phases;
mod process;
mod report;

pub(super) use options::ColdOptions;

use crate::failure::{Failure, WrongUsage};
use crate::options::{BackendName, RunOptions};
use serde_json::Value;
use std::path::Path;

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
    let mut records = out_record.map(super::open::<Value>).transpose()?;
    let report = parent::measure(model, runs, prompt_tokens, cold, run)?;
    if let Some(records) = &mut records {
        records.append(serde_json::to_value(&report)?)?;
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
    let none = ColdOptions { cold: true, drop_page_cache: false, timeline: None };
    let (conditions, _) = parent::starts(model, runs, prompt_tokens, &none, run)?;
    let mut times = conditions.iter().map(|c| c.samples.iter().map(|s| s.wall_ms).collect());
    Ok([times.next().unwrap_or_default(), times.next().unwrap_or_default()])
}

fn check(run: &RunOptions) -> Result<(), Failure> {
    match run.backend {
        BackendName::Cpu => {
            Err(WrongUsage("the CPU reference has nothing to warm up: leave out --backend cpu".into()).into())
        }
        BackendName::Gpu => Ok(()),
    }
}
