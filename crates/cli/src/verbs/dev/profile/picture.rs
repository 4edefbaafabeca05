//! A profile as one drawing: a bar for each op with the part that the ceilings of the device allow in full colour, the
//! step's dispatches over time, and the ops under the roofs of the device.

use super::report::ProfileReport;
use super::rows::{Ceilings, Row};
use wgoose_report::{Anchor, Axis, Drawing, WIDTH, standalone};

const MARGIN: f64 = 12.0;
/// Of a bar, its name above it.
const ROW: f64 = 30.0;
const BAR: f64 = 10.0;
/// Of an op on the timeline, whose name stands before it.
const LANE: f64 = 12.0;
const NAMES: f64 = 104.0;
/// The shortest dispatch is still seen.
const LEAST: f64 = 0.4;
/// Of the roofline.
const ROOM: f64 = 190.0;
/// Where its axis of rates stands.
const LEFT: f64 = 48.0;
/// The costliest ops have their names in it.
const MOST_NAMES: usize = 6;
/// Between two names.
const APART: f64 = 12.0;

/// The SVG document.
pub(super) fn svg(report: &ProfileReport) -> String {
    let step = report.gpu_ms.map_or(report.timestamped_ms, |s| s.median);
    let title = format!("{} on {}", report.model, report.device.adapter);
    let described = format!("{}, {step:.3} ms on the GPU, op by op", report.step());
    let mut drawing = Drawing::new(&title, &described);
    drawing.text((MARGIN, 18.0), Anchor::Start, "name", &title);
    drawing.text((MARGIN, 33.0), Anchor::Start, "label", &described);
    let mut y = bars(&mut drawing, report, 42.0);
    let note = match &report.ceilings {
        Some(_) => "full colour: the time that the ceilings of the device allow",
        None => "without ceilings: run wgoose dev roofline once",
    };
    drawing.text((MARGIN, y + 8.0), Anchor::Start, "label", note);
    y = timeline(&mut drawing, report, y + 24.0);
    if let Some(ceilings) = &report.ceilings {
        y = roofline(&mut drawing, report, ceilings, y);
    }
    standalone(&drawing.svg(y))
}

/// Dispatches over time, a lane for each op; where it ends.
fn timeline(drawing: &mut Drawing, report: &ProfileReport, top: f64) -> f64 {
    let bottom = top + LANE * report.ops.len() as f64 + 4.0;
    let all = report.total.cost.us.max(f64::MIN_POSITIVE);
    let along = Axis::linear([0.0, all], [NAMES, WIDTH - MARGIN]);
    for tick in along.ticks(48.0) {
        drawing.line((along.at(tick), top), (along.at(tick), bottom), "grid");
        let label = if tick == 0.0 { "0".to_owned() } else { time(tick).replace(".00 ", " ").replace(".0 ", " ") };
        drawing.text((along.at(tick).min(WIDTH - MARGIN - 18.0), bottom + 13.0), Anchor::Middle, "tick", &label);
    }
    for (lane, row) in report.ops.iter().enumerate() {
        let y = top + LANE * lane as f64;
        drawing.text((NAMES - 6.0, y + 9.0), Anchor::End, "label", &row.name);
        let mut now = 0.0;
        for dispatch in &report.dispatches {
            if dispatch.op == row.name {
                let width = along.at(now + dispatch.cost.us) - along.at(now);
                drawing.rect((along.at(now), y + 1.0), (width.max(LEAST), LANE - 3.0), "band", 1.0);
            }
            now += dispatch.cost.us;
        }
    }
    drawing.line((NAMES, bottom), (WIDTH - MARGIN, bottom), "axis");
    bottom + 26.0
}

/// A bar for each op; where the next thing begins.
fn bars(drawing: &mut Drawing, report: &ProfileReport, top: f64) -> f64 {
    let longest = report.ops.first().map_or(0.0, |row| row.cost.us).max(f64::MIN_POSITIVE);
    for (i, row) in report.ops.iter().enumerate() {
        let y = top + ROW * i as f64;
        let percent = row.percent_of_roofline.map_or(String::new(), |p| format!(" · {p:.0} % of the roofline"));
        let numbers = format!("{} · {:.1} %{percent}", time(row.cost.us), 100.0 * row.share);
        drawing.text((MARGIN, y + 10.0), Anchor::Start, "name", &row.name);
        drawing.text((WIDTH - MARGIN, y + 10.0), Anchor::End, "value", &numbers);
        let width = |us: f64| us / longest * (WIDTH - 2.0 * MARGIN);
        let all = width(row.cost.us);
        let allowed = row.cost.least_us.map_or(all, |least| all.min(width(least)));
        drawing.rect((MARGIN, y + 14.0), (allowed, BAR), "band", 1.0);
        drawing.rect((MARGIN + allowed, y + 14.0), (all - allowed, BAR), "band", 0.3);
    }
    top + ROW * report.ops.len() as f64 + 4.0
}

/// Rates over operations a byte, both logarithmic, under what the device moves and computes at most; where it ends.
fn roofline(drawing: &mut Drawing, report: &ProfileReport, ceilings: &Ceilings, top: f64) -> f64 {
    let at = |row: &Row| (row.cost.flops as f64 / row.cost.bytes as f64, row.gflop_s);
    let is_drawn = |row: &&Row| row.cost.bytes > 0 && row.cost.flops > 0 && row.gflop_s > 0.0;
    let drawn: Vec<&Row> = report.ops.iter().filter(is_drawn).collect();
    let peaks: Vec<(&str, f64)> =
        [("f32", Some(ceilings.f32_gflop_s)), ("int8", ceilings.int8_gop_s), ("matrix units", ceilings.matrix_gflop_s)]
            .into_iter()
            .filter_map(|(name, peak)| Some((name, peak?)))
            .collect();
    let highest = peaks.iter().fold(0.0, |most: f64, (_, peak)| most.max(*peak));
    let ridge = highest / ceilings.read_gb_s;
    let ends = |values: &mut dyn Iterator<Item = f64>, and: f64| {
        values.fold([and, and], |[least, most], value| [least.min(value), most.max(value)])
    };
    let [left, right] = ends(&mut drawn.iter().map(|row| at(row).0), ridge);
    let [low, high] = ends(&mut drawn.iter().map(|row| at(row).1), highest);
    let across = Axis::log([left / 2.0, right * 4.0], [LEFT, WIDTH - MARGIN]);
    let bottom = top + ROOM;
    let up = Axis::log([low / 2.0, high * 2.0], [bottom, top + 12.0]);
    for tick in across.ticks(40.0) {
        drawing.line((across.at(tick), top + 12.0), (across.at(tick), bottom), "grid");
        drawing.text((across.at(tick), bottom + 14.0), Anchor::Middle, "tick", &short(tick));
    }
    for tick in up.ticks(24.0) {
        drawing.text((LEFT - 5.0, up.at(tick) + 3.5), Anchor::End, "tick", &short(tick));
    }
    drawing.line((LEFT, bottom), (WIDTH - MARGIN, bottom), "axis");
    for (name, peak) in &peaks {
        let from = peak / ceilings.read_gb_s;
        drawing.line((across.at(from), up.at(*peak)), (WIDTH - MARGIN, up.at(*peak)), "roof");
        drawing.text((WIDTH - MARGIN, up.at(*peak) - 4.0), Anchor::End, "label", name);
    }
    let foot = (low / 2.0 / ceilings.read_gb_s).max(left / 2.0);
    drawing.line((across.at(foot), up.at(foot * ceilings.read_gb_s)), (across.at(ridge), up.at(highest)), "roof");
    let mut names: Vec<(f64, f64, &str)> = Vec::new();
    for (i, row) in drawn.iter().enumerate() {
        let (x, y) = (across.at(at(row).0), up.at(at(row).1));
        drawing.circle((x, y), 3.0, "dot");
        if i < MOST_NAMES {
            names.push((y + 3.5, x + 6.0, &row.name));
        }
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last = f64::NEG_INFINITY;
    for (y, x, name) in names {
        last = y.max(last + APART);
        drawing.text((x, last), Anchor::Start, "label", name);
    }
    let label = "operations a byte; up: GFLOP/s (both logarithmic)";
    drawing.text((WIDTH / 2.0, bottom + 29.0), Anchor::Middle, "label", label);
    bottom + 38.0
}

/// A number of an axis.
fn short(x: f64) -> String {
    match x {
        x if x >= 1e6 => format!("{:.0}M", x / 1e6),
        x if x >= 1e3 => format!("{:.0}k", x / 1e3),
        x if x >= 1.0 => format!("{x:.0}"),
        x => format!("{x:.2}"),
    }
}

/// Microseconds, or milliseconds where they are many.
fn time(us: f64) -> String {
    if us < 1000.0 { format!("{us:.1} µs") } else { format!("{:.2} ms", us / 1e3) }
}
