//! `benchmarks.md`: made from `benchmarks.jsonl`, grouped by title, each change with its ratio to the first of the
//! title.

use super::picture;
use crate::cells::cell;
use crate::failure::Failure;
use crate::out;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use wgoose_bench::BenchRecord;
use wgoose_plans::day;

/// Writes a report, and its picture beside it if there is something to compare.
pub(super) fn write(report: &Path, records: &[BenchRecord]) -> Result<(), Failure> {
    let drawn = picture::of(records);
    let path = report.with_extension("svg");
    if let Some(drawn) = &drawn {
        out::file(&path, drawn.as_bytes())?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(out::file(report, markdown(records, drawn.is_some().then_some(&*name)).as_bytes())?)
}

/// The whole report; `picture` is in the same folder.
fn markdown(records: &[BenchRecord], picture: Option<&str>) -> String {
    let mut out = String::from(
        "# Benchmarks\n\n`wgoose bench --save` writes this page from the records next to it (.jsonl), which have the raw \
         samples. A row is the median of whole sessions, measured on its day with the program of that day: it does not \
         say how fast a later program is. (x1.10) is 1.10 times as fast as the first row of the table with the same \
         model, device and work. Compare rows of one device only.\n",
    );
    if let Some(picture) = picture {
        let _ = writeln!(out, "\n![Times as fast as the first of the title](<{picture}>)");
    }
    let mut titles: Vec<&str> = Vec::new();
    for r in records {
        if !titles.contains(&r.title.as_str()) {
            titles.push(&r.title);
        }
    }
    for title in titles {
        let rows: Vec<&BenchRecord> = records.iter().filter(|r| r.title == title).collect();
        let _ = writeln!(out, "\n## {}\n", cell(title));
        out.push_str("| change | model | device | measured | load ms | first token ms ");
        out.push_str("| prefill tok/s | decode tok/s | peak MiB | quality |\n");
        out.push_str("|---|---|---|---|---:|---:|---:|---:|---:|---|\n");
        for r in &rows {
            let same = |b: &&&BenchRecord| b.work() == r.work();
            let before = rows.iter().find(same).filter(|b| b.at != r.at || b.change != r.change);
            let ratio = |gain: f64| before.map(|_| format!(" (x{gain:.2})")).unwrap_or_default();
            let slower = |now: f64, then: fn(&BenchRecord) -> f64| ratio(before.map_or(1.0, |b| then(b) / now));
            let faster = |now: f64, then: fn(&BenchRecord) -> f64| ratio(before.map_or(1.0, |b| now / then(b)));
            let is_alike = |b: &BenchRecord| b.quality_class != r.quality_class || b.quality_hash == r.quality_hash;
            let other_answers = before.is_some_and(|b| !is_alike(b));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {:.1}{} | {:.0}{} | {:.1}{} | {:.1}{} | {} | {}{} |",
                match r.sequences {
                    1 => cell(&r.change),
                    n => format!("{}, {n} sequences", cell(&r.change)),
                },
                cell(&r.model),
                cell(&r.device),
                day(UNIX_EPOCH + Duration::from_secs(r.at)),
                r.load_ms,
                slower(r.load_ms, |b| b.load_ms),
                r.first_token_ms,
                slower(r.first_token_ms, |b| b.first_token_ms),
                r.prefill_tok_s,
                faster(r.prefill_tok_s, |b| b.prefill_tok_s),
                r.decode_tok_s,
                faster(r.decode_tok_s, |b| b.decode_tok_s),
                r.peak_memory_mib.map_or("-".into(), |m| format!("{m:.0}")),
                r.quality_hash,
                if other_answers { ", **other answers**" } else { "" },
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;
    use wgoose_bench::saved;

    /// The records of the repository.
    fn records() -> Vec<BenchRecord> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../optimization_plan/benchmarks.jsonl");
        saved(&path).unwrap()
    }

    #[test]
    fn a_changed_quality_hash_is_reported() {
        let mut records = records();
        assert!(!markdown(&records, None).contains("other answers"));
        records[1].quality_hash = "another".to_owned();
        assert!(markdown(&records, None).contains("| another, **other answers** |"));
        records[1].title = "another title".to_owned();
        assert!(!markdown(&records, None).contains("other answers"), "it is held against records of its title");
    }

    /// The page is made of its records; with `UPDATE_EXPECT=1` it is made anew.
    #[test]
    fn the_report_of_the_repository_is_made_of_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("benchmarks.md");
        write(&report, &records()).unwrap();
        let written = |extension: &str| std::fs::read_to_string(report.with_extension(extension)).unwrap();
        expect_file!["../../../../../optimization_plan/benchmarks.md"].assert_eq(&written("md"));
        expect_file!["../../../../../optimization_plan/benchmarks.svg"].assert_eq(&written("svg"));
    }
}
