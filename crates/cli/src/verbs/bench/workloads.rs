//! `wgoose bench` without a title: named workloads, prefill and decode, each a row of a report for every model and
//! plan.

use super::Args;
use super::cold;
use super::export;
use super::speeds::Speeds;
use super::table::Table;
use crate::failure::{Failure, WrongUsage};
use crate::progress::Moving;
use clap::ValueEnum;
use serde_json::Value;
use std::path::{Path, PathBuf};
use wgoose_bench::workload::{Chosen, Job, Jobs, LlamaBench, Reference, Row, Workload, WorkloadReport, measure};
use wgoose_session::PlanChoice;

/// Tokens of the prompt where nothing is named: those of llama-bench, as the tokens written are.
const USUAL: usize = 512;

/// Options that ask for rows of the table.
#[derive(clap::Args)]
pub(super) struct WorkloadOptions {
    /// Measure named workloads instead: document, fields, chat, batch, cold, a list of these, or all. The table also
    /// shows times of other projects where they are known.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["cold", "title", "change", "save", "cache", "prefill_tokens", "sequences"])]
    pub(super) workload: Vec<Chosen>,
    /// Measure prefill of these lengths instead, one row each. With --cold: the length of its prompt.
    #[arg(short = 'p', long, value_name = "TOKENS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    #[arg(conflicts_with_all = ["title", "change", "save", "cache", "prefill_tokens", "sequences"])]
    pub(super) prompt_tokens: Vec<u32>,
    /// Measure batched prefill instead: 32x128 is 32 prompts of 128 tokens in one call. Several: 32x64,32x1024.
    #[arg(long, value_name = "NxM", value_delimiter = ',', value_parser = packed)]
    #[arg(conflicts_with_all = ["cold", "title", "change", "save", "cache", "prefill_tokens", "sequences"])]
    pub(super) packed: Vec<(usize, usize)>,
    /// Measure batched decode of --decode-tokens at these batch sizes instead, such as 1,8,32,128.
    #[arg(long, value_name = "SEQUENCES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    #[arg(conflicts_with_all = ["cold", "title", "change", "save", "cache", "prefill_tokens", "sequences"])]
    pub(super) decode: Vec<u32>,
    /// Also run your llama-bench on the same file, for the same prefill and decode, and print its results next to ours.
    #[arg(long, value_name = "llama-bench[=PATH]")]
    #[arg(conflicts_with_all = ["cold", "title", "change", "save", "cache", "prefill_tokens", "sequences"])]
    pub(super) against: Option<LlamaBench>,
    /// With --cold, --workload, --prompt-tokens, --packed or --decode: append the report to this file as one line of
    /// JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "title", value_parser = crate::options::place())]
    pub(super) out_record: Option<PathBuf>,
}

impl WorkloadOptions {
    /// The one length of the prompt of `--cold`.
    pub(super) fn cold_prompt(&self) -> Result<u32, Failure> {
        match self.prompt_tokens[..] {
            [] => Ok(cold::PROMPT),
            [one] => Ok(one),
            _ => Err(WrongUsage("--cold reads one prompt: name one length with --prompt-tokens".into()).into()),
        }
    }

    /// The workloads, each once.
    fn workloads(&self) -> Vec<Workload> {
        let is_chosen = |w: &Workload| self.workload.iter().any(|c| [Chosen::All, Chosen::One(*w)].contains(c));
        Workload::ALL.into_iter().filter(is_chosen).collect()
    }
}

/// `32x128`: sequences, tokens of each.
fn packed(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| (1..=65536).contains(n)).map(|n| n as usize);
    let numbers = text.split_once('x').and_then(|(n, m)| Some((number(n).filter(|n| *n <= 1024)?, number(m)?)));
    numbers.ok_or_else(|| "expected sequences and the tokens of each, such as 32x128: up to 1024x65536".into())
}

/// How reports are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// A table for a terminal.
    Table,
    /// Markdown; prefill and decode as rows of the table that RWKV's community keeps.
    Md,
    /// Comma-separated values with a header line.
    Csv,
    /// One line of JSON for each model and plan, with every sample.
    Json,
}

impl Args {
    /// What is to be measured, and whether it is the usual.
    fn jobs(&self) -> (Jobs, bool) {
        let options = &self.workloads;
        let mut jobs = Jobs {
            workloads: options.workloads(),
            prompts: options.prompt_tokens.iter().map(|n| *n as usize).collect(),
            packed: options.packed.clone(),
            decodes: options.decode.iter().map(|n| *n as usize).collect(),
            decode_tokens: self.decode_tokens as usize,
            at_least: self.at_least(),
        };
        let is_usual = jobs.workloads.is_empty() && options.packed.is_empty() && options.decode.is_empty();
        let is_usual = is_usual && jobs.prompts.is_empty();
        if is_usual {
            jobs.prompts.push(USUAL);
            jobs.decodes.push(1);
        }
        (jobs, is_usual)
    }

    /// What a peer's program needs, run before and never beside.
    fn theirs(&self, model: &Path, jobs: &Jobs) -> Result<Vec<(Job, Reference)>, Failure> {
        let Some(peer) = &self.workloads.against else { return Ok(Vec::new()) };
        let _moving = Moving::spinner("llama-bench")?;
        Ok(peer.run(model, &jobs.plain(), jobs.at_least.runs)?)
    }

    /// One model with one plan.
    fn report(&self, model: &Path, plan: PlanChoice, jobs: &Jobs) -> Result<WorkloadReport, Failure> {
        let is_cold = jobs.workloads.contains(&Workload::Cold);
        let cold = (self.runs(), cold::PROMPT);
        let starts = if is_cold { cold::starts(model, cold, &self.options)? } else { Default::default() };
        let moving = Moving::spinner("opening")?;
        let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let subject = self.options.subject_with(plan)?;
        let mut report = measure(model, &subject, jobs, &mut moving.watch(&name))?;
        for (kept, samples) in [true, false].into_iter().zip(starts) {
            let job = Job::Cold { tokens: cold::PROMPT as usize, kept };
            report.rows.extend(Row::new(Workload::Cold.name(), job, None, samples));
        }
        report.refer();
        Ok(report)
    }
}

/// Measures, appends and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (jobs, is_usual) = args.jobs();
    if jobs.workloads.contains(&Workload::Cold) && !args.plans.is_empty() {
        return Err(WrongUsage("--workload cold takes --plan, not --plans".into()).into());
    }
    // What is refused is refused before minutes of work.
    let mut records = args.workloads.out_record.as_deref().map(super::open::<Value>).transpose()?;
    let form = if args.json { Form::Json } else { args.format };
    let is_usual = is_usual && args.workloads.against.is_none();
    let mut reports = Vec::new();
    for model in &args.models {
        let theirs = args.theirs(model, &jobs)?;
        for plan in args.plans() {
            let mut report = args.report(model, plan, &jobs)?;
            for row in &mut report.rows {
                row.references.extend(theirs.iter().filter(|(job, _)| *job == row.job).map(|(_, peer)| peer.clone()));
            }
            if let Some(records) = &mut records {
                records.append(serde_json::to_value(&report)?)?;
            }
            match form {
                Form::Json => outln!("{}", serde_json::to_string(&report)?),
                Form::Table if !is_usual => outln!("{}{}", if reports.is_empty() { "" } else { "\n" }, Table(&report)),
                _ => {}
            }
            reports.push(report);
        }
    }
    match form {
        Form::Table if is_usual => outln!("{}", Speeds(&reports)),
        Form::Md => out!("{}", export::markdown(&reports)),
        Form::Csv => out!("{}", export::csv(&reports)),
        Form::Table | Form::Json => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_prompts_are_given_by_two_numbers() {
        assert_eq!(packed("32x128"), Ok((32, 128)));
        for wrong in ["32", "x", "32x", "0x1", "1x0", "32x-1", "1025x1", "1x65537", "32x128x2", "a"] {
            assert!(packed(wrong).is_err(), "{wrong}");
        }
    }
}
