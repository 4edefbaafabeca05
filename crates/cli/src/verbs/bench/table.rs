//! Rows of one model and plan for people: every spread, and what is known of others.

use std::fmt;
use wgoose_bench::workload::{Environment, Reference, Row, WorkloadReport};

/// A report for people.
pub(super) struct Table<'a>(pub(super) &'a WorkloadReport);

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
        let runs = super::counts(self.0.rows.iter());
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
    match ratio.filter(|_| device.contains(&**theirs)) {
        Some(ratio) => write!(f, ", this is {ratio:.2} x as fast")?,
        None => write!(f, ", not this device")?,
    }
    writeln!(f, " ({source})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_bench::workload::{Job, references};

    #[test]
    fn peers_on_another_device_are_not_compared() {
        let job = Job::Prompt(512);
        let row = Row::new("prompt", job, None, vec![100.0]);
        let environment = |device: &str| Environment {
            at: 0,
            version: "1".into(),
            wgpu: "2",
            model: "m.gguf".into(),
            file_bytes: 1,
            fingerprint: "f".into(),
            size: Some("2.9B"),
            formats: Some("Q4_K_M"),
            parameters: 2,
            device: device.into(),
            plan: Some("abc".into()),
            plan_file: None,
            prefill_chunk: 64,
        };
        let table = |device: &str| {
            let rows =
                row.iter().cloned().map(|row| Row { references: references(Some("2.9B"), Some("Q4_K_M"), job), ..row });
            Table(&WorkloadReport { environment: environment(device), rows: rows.collect() }).to_string()
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
