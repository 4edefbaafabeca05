//! Reports for documents and spreadsheets: a line for each row of each model and plan.

use super::community;
use super::speeds::{plan, rates};
use crate::cells::{cell, quoted};
use std::fmt::Write as _;
use wgoose_bench::workload::{Environment, Row, WorkloadReport};

/// The names of the columns of [`csv`].
const COLUMNS: &str = "model,size,formats,file_mib,device,plan,plan_hash,prefill_chunk,version,wgpu,workload,test,runs,settled,\
                       median_ms,min_ms,max_ms,iqr_ms,tokens_per_s,slowest_tokens_per_s,fastest_tokens_per_s";

fn mib(environment: &Environment) -> f64 {
    environment.file_bytes as f64 / f64::from(1 << 20)
}

fn each(reports: &[WorkloadReport]) -> impl Iterator<Item = (&Environment, &Row)> {
    reports.iter().flat_map(|report| report.rows.iter().map(|row| (&report.environment, row)))
}

/// Tables in Markdown: prefill and decode as the community has them, then everything else; devices and versions below.
pub(super) fn markdown(reports: &[WorkloadReport]) -> String {
    let rows: String = each(reports).map(|(environment, row)| community::lines(environment, row)).collect();
    let others: String = each(reports).map(|(environment, row)| other_lines(environment, row)).collect();
    let tables = [(community::HEAD, rows), (OTHERS, others)];
    let tables: Vec<String> =
        tables.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(head, rows)| format!("{head}{rows}")).collect();
    let mut out = tables.join("\n");
    let mut said: Vec<String> = Vec::new();
    for WorkloadReport { environment: Environment { device, version, wgpu, .. }, .. } in reports {
        let line = format!("{}; wgoose {version}, wgpu {wgpu}", cell(device));
        if !said.contains(&line) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "\n{line}");
            said.push(line);
        }
    }
    out
}

/// The head of the table of everything else.
const OTHERS: &str =
    "| model | MiB | plan | test | tokens/s | slowest to fastest | ms |\n|---|---:|---|---|---:|---:|---:|\n";

/// A row that the community's table does not have, and below it those of programs that were run beside.
fn other_lines(environment: &Environment, row: &Row) -> String {
    if community::test(row.job).is_some() {
        return String::new();
    }
    let (rate, range) = match rates(row) {
        Some([rate, slowest, fastest]) => (format!("{rate:.1}"), format!("{slowest:.1} to {fastest:.1}")),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let (model, plan) = (cell(&environment.model), cell(&plan(environment)));
    let (mib, what) = (mib(environment), cell(&row.what));
    let mut out = format!("| {model} | {mib:.1} | {plan} | {what} | {rate} | {range} | {:.2} |\n", row.ms.median);
    for peer in row.references.iter().filter(|peer| !peer.samples_ms.is_empty()) {
        let rate = peer.tokens_per_s.map_or("-".to_owned(), |rate| format!("{rate:.1}"));
        let ms = peer.ms.map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        let _ = writeln!(out, "| {model} | {mib:.1} | {} | {what} | {rate} | - | {ms} |", cell(&peer.who));
    }
    out
}

/// Comma-separated values (RFC 4180) with a line of names.
pub(super) fn csv(reports: &[WorkloadReport]) -> String {
    let mut out = format!("{COLUMNS}\n");
    for (e, row) in each(reports) {
        let rates = rates(row).map(|rates| rates.map(|rate| format!("{rate:.3}"))).unwrap_or_default();
        let settled = row.warm_up.map(|warm_up| warm_up.settled.to_string()).unwrap_or_default();
        let texts = [
            e.model.clone(),
            e.size.unwrap_or_default().to_owned(),
            e.formats.unwrap_or_default().to_owned(),
            format!("{:.1}", mib(e)),
            e.device.clone(),
            plan(e),
            e.plan.clone().unwrap_or_default(),
            e.prefill_chunk.to_string(),
            e.version.clone(),
            e.wgpu.to_owned(),
            row.workload.to_owned(),
            row.what.clone(),
            row.samples_ms.len().to_string(),
            settled,
        ];
        let times = [row.ms.median, row.ms.min, row.ms.max, row.ms.iqr].map(|ms| format!("{ms:.4}"));
        let line: Vec<String> = texts.iter().chain(&times).chain(&rates).map(|text| quoted(text)).collect();
        let _ = writeln!(out, "{}", line.join(","));
    }
    out
}
