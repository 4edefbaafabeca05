//! `benchmarks.md`: made from `benchmarks.jsonl`, grouped by title, each change beside what was there before.

use crate::cells::cell;
use std::fmt::Write as _;
use wgoose_bench::Record;

/// The whole report.
pub(super) fn markdown(records: &[Record]) -> String {
    let mut out = String::from(
        "# Benchmarks\n\nWritten by `wgoose bench` from the records beside it (.jsonl), which have the raw samples. Medians; ratios are \
         against the first row of the table. Compare rows of one device only.\n",
    );
    let mut titles: Vec<&str> = Vec::new();
    for r in records {
        if !titles.contains(&r.title.as_str()) {
            titles.push(&r.title);
        }
    }
    for title in titles {
        let rows: Vec<&Record> = records.iter().filter(|r| r.title == title).collect();
        let _ = writeln!(out, "\n## {}\n", cell(title));
        out.push_str("| change | model | device | load ms | first token ms | prefill tok/s | decode tok/s | peak MiB | quality |\n");
        out.push_str("|---|---|---|---:|---:|---:|---:|---:|---|\n");
        for r in &rows {
            // Only what ran the same thing on the same device can be compared.
            let same =
                |b: &&&Record| b.device == r.device && b.fingerprint == r.fingerprint && b.sequences == r.sequences;
            let before = rows.iter().find(same).filter(|b| b.at != r.at || b.change != r.change);
            let ratio = |now: f64, then: fn(&Record) -> f64| {
                before.map(|b| format!(" (x{:.2})", now / then(b))).unwrap_or_default()
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {:.1} | {:.0} | {:.1}{} | {:.1}{} | {} | {} |",
                match r.sequences {
                    1 => cell(&r.change),
                    n => format!("{}, {n} sequences", cell(&r.change)),
                },
                cell(&r.model),
                cell(&r.device),
                r.load_ms,
                r.first_token_ms,
                r.prefill_tok_s,
                ratio(r.prefill_tok_s, |b| b.prefill_tok_s),
                r.decode_tok_s,
                ratio(r.decode_tok_s, |b| b.decode_tok_s),
                r.peak_memory_mib.map_or("-".into(), |m| format!("{m:.0}")),
                r.quality_hash,
            );
        }
    }
    out
}
