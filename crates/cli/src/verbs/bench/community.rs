//! Rows as RWKV's community keeps them (github.com/RWKV-Vibe/RWKV-Inference-Performance-Test): the columns of
//! llama-bench. Prefill is `pp`, decode at batch size 1 is `tg`, a speed is the mean over all runs with its standard
//! deviation.

use super::speeds::plan;
use crate::cells::cell;
use wgoose_bench::workload::{Environment, Job, Row};

/// The head of the table.
pub(super) const HEAD: &str = "\
| model                          |       size |     params | backend    | ngl |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
";

/// What a job is called there; `None` for jobs that the table does not have.
pub(super) fn test(job: Job) -> Option<String> {
    match job {
        Job::Prompt(tokens) => Some(format!("pp{tokens}")),
        Job::Decode(1, tokens) => Some(format!("tg{tokens}")),
        _ => None,
    }
}

/// A row and, below it, those of programs that were run beside; nothing for a job that the table does not have.
pub(super) fn lines(environment: &Environment, row: &Row) -> String {
    let Some(test) = test(row.job) else { return String::new() };
    let ours = format!("wgoose, {}", plan(environment));
    let ngl = if environment.plan.is_some() { 99 } else { 0 };
    let beside = row.references.iter().filter(|peer| !peer.samples_ms.is_empty());
    let beside = beside.map(|peer| (&*peer.who, 99, &peer.samples_ms));
    let all = std::iter::once((&*ours, ngl, &row.samples_ms)).chain(beside);
    let tokens = row.tokens_per_s.unwrap_or_default() * row.ms.median / 1e3;
    all.map(|(backend, ngl, samples_ms)| line(environment, backend, ngl, &test, &speed(tokens, samples_ms))).collect()
}

fn line(environment: &Environment, backend: &str, ngl: u32, test: &str, speed: &str) -> String {
    let (model, backend) = (cell(&model(environment)), cell(backend));
    let (size, params) = (size(environment.file_bytes), params(environment.parameters));
    format!("| {model:<30} | {size:>10} | {params:>10} | {backend:<10} | {ngl:>3} | {test:>15} | {speed:>20} |\n")
}

/// `rwkv7 2.9B Q4_K_M`, or the file of a model that has no published size.
fn model(environment: &Environment) -> String {
    match (environment.size, environment.formats) {
        (Some(size), Some(formats)) => format!("rwkv7 {size} {formats}"),
        _ => environment.model.clone(),
    }
}

fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.2} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

fn params(count: u64) -> String {
    let millions = count as f64 / 1e6;
    if millions < 1e3 { format!("{millions:.2} M") } else { format!("{:.2} B", millions / 1e3) }
}

/// Mean and standard deviation of the tokens a second of each run.
fn speed(tokens: f64, samples_ms: &[f64]) -> String {
    let rates: Vec<f64> = samples_ms.iter().map(|ms| tokens / ms * 1e3).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let deviation = (squares / (rates.len().max(2) - 1) as f64).sqrt();
    format!("{mean:.2} ± {deviation:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_that_of_the_community() {
        let environment = Environment {
            at: 0,
            version: "1".into(),
            wgpu: "2",
            model: "m.gguf".into(),
            file_bytes: 5_927_054_868,
            fingerprint: "f".into(),
            size: Some("2.9B"),
            formats: Some("F16"),
            parameters: 2_950_000_000,
            device: "NVIDIA H200".into(),
            plan: Some("abc".into()),
            plan_file: None,
            prefill_chunk: 512,
        };
        let row = |job, samples| Row::new("prompt", job, None, samples).unwrap();
        assert_eq!(
            lines(&environment, &row(Job::Prompt(512), vec![50.0, 64.0])),
            "| rwkv7 2.9B F16                 |   5.52 GiB |     2.95 B | wgoose, default plan |  99 |           pp512 |    \
             9120.00 ± 1583.92 |\n"
        );
        let written = lines(&environment, &row(Job::Decode(1, 128), vec![256.0]));
        assert!(written.ends_with("|  99 |           tg128 |        500.00 ± 0.00 |\n"), "{written}");
        assert_eq!(lines(&environment, &row(Job::Decode(2, 128), vec![1.0])), "");
        let own = Environment { size: None, parameters: 5_000_000, file_bytes: 1 << 20, plan: None, ..environment };
        let line = lines(&own, &row(Job::Prompt(1), vec![1.0]));
        assert!(
            line.starts_with(
                "| m.gguf                         |   1.00 MiB |     5.00 M | wgoose, CPU reference |   0 |"
            ),
            "{line}"
        );
    }
}
