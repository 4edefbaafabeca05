//! `wgoose bench --workload` and its like: rows of one table, each beside what is known of others.

use super::cold;
use crate::failure::Failure;
use crate::options::RunOptions;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use wgoose_bench::workload::{Chosen, Environment, Job, Jobs, Reference, Report, Row, Workload, measure};

/// Options that ask for rows of the table.
#[derive(clap::Args)]
pub(super) struct WorkloadOptions {
    /// Measure what people do with a model instead: document, fields, chat, batch, cold, several of them, or all. Prints a
    /// table with what other projects need for the same, where it is known.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["cold", "title", "change", "out", "cache", "prefill_tokens", "sequences"])]
    pub(super) workload: Vec<Chosen>,
    /// Measure prompts of these lengths instead, each a row of the table; with --cold, the one length of its prompt.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    #[arg(conflicts_with_all = ["title", "change", "out", "cache", "prefill_tokens", "sequences"])]
    pub(super) prompt_tokens: Vec<u32>,
    /// Measure prompts read in one call instead, such as 32x128: 32 of 128 tokens. Several: 32x64,32x1024.
    #[arg(long, value_name = "NxM", value_delimiter = ',', value_parser = packed)]
    #[arg(conflicts_with_all = ["cold", "title", "change", "out", "cache", "prefill_tokens", "sequences"])]
    pub(super) packed: Vec<(usize, usize)>,
    /// Measure so many sequences that write --decode-tokens together instead, such as 1,8,32,128.
    #[arg(long, value_name = "SEQUENCES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    #[arg(conflicts_with_all = ["cold", "title", "change", "out", "cache", "prefill_tokens", "sequences"])]
    pub(super) decode: Vec<u32>,
    /// With --cold, --workload, --prompt-tokens, --packed or --decode: append the report to this file, one line of JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "title", value_parser = crate::options::place)]
    pub(super) out_record: Option<PathBuf>,
}

impl WorkloadOptions {
    /// The one length of the prompt of `--cold`.
    pub(super) fn cold_prompt(&self) -> Result<u32, Failure> {
        match self.prompt_tokens[..] {
            [] => Ok(cold::PROMPT),
            [one] => Ok(one),
            _ => Err("--cold reads one prompt: name one length with --prompt-tokens".into()),
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

/// Measures, appends and prints.
pub(super) fn run(
    model: &Path,
    (runs, decode_tokens): (u32, u32),
    json: bool,
    options: &WorkloadOptions,
    run: &RunOptions,
) -> Result<(), Failure> {
    let workloads = options.workloads();
    let jobs = Jobs {
        workloads: workloads.clone(),
        prompts: options.prompt_tokens.iter().map(|n| *n as usize).collect(),
        packed: options.packed.clone(),
        decodes: options.decode.iter().map(|n| *n as usize).collect(),
        decode_tokens: decode_tokens as usize,
        runs: runs as usize,
    };
    // What is refused is refused before minutes of work.
    let mut records = options.out_record.as_deref().map(super::open::<Value>).transpose()?;
    let is_cold = workloads.contains(&Workload::Cold);
    let starts = if is_cold { cold::starts(model, (runs, cold::PROMPT), run)? } else { Default::default() };
    let mut report = measure(model, &run.subject()?, &jobs)?;
    for (kept, samples) in [true, false].into_iter().zip(starts) {
        let job = Job::Cold { tokens: cold::PROMPT as usize, kept };
        report.rows.extend(Row::new(Workload::Cold.name(), job, None, samples));
    }
    report.refer();
    if let Some(records) = &mut records {
        records.append(serde_json::to_value(&report)?)?;
    }
    match json {
        true => outln!("{}", serde_json::to_string(&report)?),
        false => outln!("{}", Table(&report)),
    }
    Ok(())
}

/// A report for people.
struct Table<'a>(&'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment { model, size, formats, device, plan, plan_file, prefill_chunk, version, wgpu, .. } =
            &self.0.environment;
        let known: Vec<&str> = size.iter().chain(formats).copied().collect();
        let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(" ")) };
        writeln!(f, "{model}{known} on {device}")?;
        match (plan, plan_file) {
            (None, _) => write!(f, "no plan")?,
            (Some(hash), None) => write!(f, "default plan {hash}")?,
            (Some(hash), Some(file)) => write!(f, "plan {file}, {hash}")?,
        }
        writeln!(f, ", prefill chunk {prefill_chunk}; wgoose {version}, wgpu {wgpu}")?;
        let runs = self.0.rows.iter().map(|row| row.samples_ms.len()).max().unwrap_or(0);
        writeln!(f, "{runs} runs each, after at least 250 ms of warm-up until four in a row are within 3 %")?;
        write!(f, "\n{:<10}{:<36}", "", "")?;
        writeln!(f, "{:>11}{:>10}{:>10}{:>10}{:>12}", "median ms", "min", "max", "iqr", "tokens/s")?;
        for row in &self.0.rows {
            write!(f, "{:<10}{:<36}{:>11.2}", row.workload, row.what, row.ms.median)?;
            write!(f, "{:>10.2}{:>10.2}{:>10.2}", row.ms.min, row.ms.max, row.ms.iqr)?;
            match row.tokens_per_s {
                Some(rate) => write!(f, "{rate:>12.1}")?,
                None => write!(f, "{:>12}", "-")?,
            }
            writeln!(
                f,
                "{}",
                if row.warm_up.is_some_and(|w| !w.settled) { "  still moving after the warm-up" } else { "" }
            )?;
            row.references.iter().try_for_each(|reference| line(f, row, device, reference))?;
        }
        if self.0.rows.iter().any(|row| !row.references.is_empty()) {
            writeln!(f, "\nFigures of others are for reference: compare those of the same device only.")?;
        }
        write!(f, "Answers are not checked here: wgoose verify does that.")
    }
}

/// What another project needs; how many times as fast this is, on the same device.
fn line(f: &mut fmt::Formatter<'_>, row: &Row, device: &str, other: &Reference) -> fmt::Result {
    let Reference { who, device: theirs, source, .. } = other;
    let (figure, ratio) = match (other.tokens_per_s, other.ms) {
        (Some(rate), _) => (format!("{rate:.0} tokens/s"), row.tokens_per_s.map(|ours| ours / rate)),
        (None, Some(ms)) => (format!("{ms:.0} ms"), Some(ms / row.ms.median)),
        (None, None) => return Ok(()),
    };
    write!(f, "{:<12}{who}: {figure} on {theirs}", "")?;
    match ratio.filter(|_| device.contains(theirs)) {
        Some(ratio) => write!(f, ", this is {ratio:.2} x as fast")?,
        None => write!(f, ", not this device")?,
    }
    writeln!(f, " ({source})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_bench::workload::references;

    #[test]
    fn prompts_in_one_call_are_two_numbers() {
        assert_eq!(packed("32x128"), Ok((32, 128)));
        for wrong in ["32", "x", "32x", "0x1", "1x0", "32x-1", "1025x1", "1x65537", "32x128x2", "a"] {
            assert!(packed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_same_device_is_compared() {
        let job = Job::Prompt(512);
        let row = Row::new("prompt", job, None, vec![100.0]);
        let environment = |device: &str| Environment {
            at: 0,
            version: "1".into(),
            wgpu: "2",
            model: "m.gguf".into(),
            fingerprint: "f".into(),
            size: Some("2.9B"),
            formats: Some("Q4_K_M"),
            device: device.into(),
            plan: Some("abc".into()),
            plan_file: None,
            prefill_chunk: 64,
        };
        let table = |device: &str| {
            let rows =
                row.iter().cloned().map(|row| Row { references: references(Some("2.9B"), Some("Q4_K_M"), job), ..row });
            Table(&Report { environment: environment(device), rows: rows.collect() }).to_string()
        };
        let here = table("NVIDIA H200, driver 1");
        assert!(
            here.contains("llama.cpp CUDA (October 2026): 8471 tokens/s on NVIDIA H200, this is 0.60 x as fast"),
            "{here}"
        );
        assert!(here.contains("m.gguf (2.9B Q4_K_M) on NVIDIA H200") && here.contains("default plan abc"), "{here}");
        let elsewhere = table("llvmpipe");
        assert!(elsewhere.contains("not this device") && !elsewhere.contains("as fast"), "{elsewhere}");
    }
}
