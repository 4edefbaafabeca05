//! The usual figures for people: tokens a second, model after model.

use std::fmt;
use wgoose_bench::workload::{Environment, Row, WorkloadReport};

/// Reports as one table.
pub(super) struct Speeds<'a>(pub(super) &'a [WorkloadReport]);

impl fmt::Display for Speeds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(WorkloadReport { environment: first, .. }) = self.0.first() else { return Ok(()) };
        let runs = super::counts(self.0.iter().flat_map(|report| &report.rows));
        writeln!(f, "{}", first.device)?;
        writeln!(f, "wgoose {}, wgpu {}; medians of {runs} runs, slowest and fastest\n", first.version, first.wgpu)?;
        write!(f, "{:<26}{:>13}{:>13}{:>13}", "", "tokens/s", "slowest", "fastest")?;
        for WorkloadReport { environment, rows } in self.0 {
            write!(f, "\n{}\n", heading(environment))?;
            for row in rows {
                write!(f, "  {:<24}", row.what)?;
                for rate in rates(row).into_iter().flatten() {
                    write!(f, "{rate:>13.1}")?;
                }
                let is_settled = row.warm_up.is_none_or(|warm_up| warm_up.settled);
                writeln!(f, "{}", if is_settled { "" } else { "  (noisy)" })?;
            }
        }
        let is_noisy = |row: &Row| row.warm_up.is_some_and(|warm_up| !warm_up.settled);
        if self.0.iter().flat_map(|report| &report.rows).any(is_noisy) {
            writeln!(f, "\n(noisy): runs still differed by more than 3 % after the warm-up.")?;
        }
        write!(f, "\nAnswers are not checked here: wgoose verify does that.")
    }
}

/// The file, what is in it, and how it was run.
fn heading(environment: &Environment) -> String {
    let Environment { model, file_bytes, size, formats, .. } = environment;
    let mut what: Vec<String> = size.iter().chain(formats).map(ToString::to_string).collect();
    what.push(format!("{:.1} MiB", *file_bytes as f64 / f64::from(1 << 20)));
    format!("{model} ({}), {}", what.join(", "), plan(environment))
}

/// The plan, for people.
pub(super) fn plan(environment: &Environment) -> String {
    match (&environment.plan, &environment.plan_file) {
        (None, _) => "CPU reference".to_owned(),
        (Some(_), None) => "default plan".to_owned(),
        (Some(_), Some(name)) => format!("plan {name}"),
    }
}

/// Tokens a second at the median, in the slowest and in the fastest run; none where a rate says nothing.
pub(super) fn rates(row: &Row) -> Option<[f64; 3]> {
    let rate = row.tokens_per_s?;
    let ms = row.ms;
    Some([rate, rate * ms.median / ms.max, rate * ms.median / ms.min])
}
