//! Records as one drawing: how many times as fast each is as what it is held against, with intervals.

use wgoose_bench::{BenchRecord, Saved, Timed};
use wgoose_measure::stats::{Comparison, Criteria, Summary, compare};
use wgoose_report::{Gain, gains, standalone};

/// Most characters of a line, name and numbers.
const MOST: usize = 48;

/// A row of the drawing.
pub(super) fn gain(name: &str, before: &Timed, now: &Timed, comparison: &Comparison) -> Gain {
    let median = |timed: &Timed| Summary::of(&timed.samples_ms).map_or(f64::NAN, |summary| summary.median);
    row(name, &format!("{:.2} → {:.2} ms · ", median(before), median(now)), comparison)
}

fn row(name: &str, times: &str, comparison: &Comparison) -> Gain {
    let gain = comparison.log_ratio.exp();
    let detail = format!("{times}×{gain:.2}");
    let room = MOST.saturating_sub(detail.chars().count());
    let name = match name.char_indices().nth(room) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    };
    let interval = [comparison.interval.low.exp(), comparison.interval.high.exp()];
    Gain { name, detail, gain, interval }
}

/// Rows as a file.
pub(super) fn drawn(title: &str, against: &str, rows: &[Gain]) -> String {
    standalone(&gains(title, against, rows))
}

/// Every record beside the first of its title that did the same work; `None` where there is no second.
pub(super) fn of(records: &[BenchRecord]) -> Option<String> {
    let mut rows = Vec::new();
    for (i, now) in records.iter().enumerate() {
        let is_before = |before: &&BenchRecord| before.title == now.title && before.work() == now.work();
        let Some(before) = records[..i].iter().find(is_before) else { continue };
        let timed = |record: &BenchRecord| Saved::Session(Box::new(record.clone())).timed();
        for (phase, (before, timed)) in ["prefill", "decode"].iter().zip(timed(before).iter().zip(&timed(now))) {
            let pairs = before.samples_ms.len().min(timed.samples_ms.len());
            let compared = compare(&before.samples_ms[..pairs], &timed.samples_ms[..pairs], &Criteria::kernel());
            let name = format!("{}, {}, {phase}", now.model, now.change);
            rows.extend(compared.map(|comparison| row(&name, "", &comparison)));
        }
    }
    (!rows.is_empty()).then(|| drawn("Benchmarks", "first of its title", &rows))
}
