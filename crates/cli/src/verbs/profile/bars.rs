//! A profile as bars: the step as one bar divided among the ops, then a bar for each op, the part that the ceilings allow in
//! full colour, the rest pale.

use super::report::Report;
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 16.0;
/// Where bars begin: names stand before them.
const LEFT: f64 = 160.0;
/// Room for numbers behind a bar.
const RIGHT: f64 = 300.0;
const LINE: f64 = 24.0;
const BAR: f64 = 16.0;

/// The SVG document.
pub(super) fn svg(report: &Report) -> String {
    let (top, all) = (MARGIN + 3.5 * LINE, report.total.cost.us.max(f64::MIN_POSITIVE));
    let height = top + report.ops.len() as f64 * LINE + 2.0 * LINE + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let step = report.gpu_ms.map_or(report.timestamped_ms, |s| s.median);
    text(
        &mut out,
        MARGIN,
        MARGIN + 10.0,
        &format!("{} on {}: {}, {step:.3} ms on the GPU", report.model, report.device.adapter, report.step()),
    );
    let mut x = MARGIN;
    for (i, row) in report.ops.iter().enumerate() {
        let width = row.share * (WIDTH - 2.0 * MARGIN);
        bar(&mut out, (x, MARGIN + LINE), width, &colour(i, 50), &format!("{}: {}", row.name, time(row.cost.us)));
        x += width;
    }
    let longest = report.ops.first().map_or(all, |row| row.cost.us).max(f64::MIN_POSITIVE);
    for (i, row) in report.ops.iter().enumerate() {
        let y = top + i as f64 * LINE;
        let width = row.cost.us / longest * (WIDTH - LEFT - RIGHT);
        let allowed = row.cost.least_us.map_or(width, |least| width.min(least / longest * (WIDTH - LEFT - RIGHT)));
        text(&mut out, MARGIN, y + 12.0, &row.name);
        bar(&mut out, (LEFT, y), allowed, &colour(i, 50), "what the ceilings of the device allow");
        bar(&mut out, (LEFT + allowed, y), width - allowed, &colour(i, 82), "the rest");
        let percent = row.percent_of_roofline.map_or(String::new(), |p| format!(", {p:.0} % of the roofline"));
        let numbers = format!("{}, {:.1} %{percent}", time(row.cost.us), 100.0 * row.share);
        text(&mut out, LEFT + width + 6.0, y + 12.0, &numbers);
    }
    let note = match report.ceilings {
        Some(_) => "Full colour: the time that the ceilings of the device allow. Pale: the rest.",
        None => "Without ceilings: run `wgoose roofline` once.",
    };
    text(&mut out, MARGIN, height - MARGIN, note);
    out.push_str("</svg>\n");
    out
}

/// Microseconds, or milliseconds where they are many.
fn time(us: f64) -> String {
    if us < 1000.0 { format!("{us:.1} us") } else { format!("{:.3} ms", us / 1e3) }
}

/// Hues apart from their neighbours', by the golden angle.
fn colour(i: usize, lightness: u32) -> String {
    format!("hsl({:.0},60%,{lightness}%)", (i as f64 * 137.508) % 360.0)
}

fn bar(out: &mut String, (x, y): (f64, f64), width: f64, fill: &str, title: &str) {
    let title = escaped(title);
    let _ = writeln!(
        out,
        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{BAR}\" fill=\"{fill}\"><title>{title}</title></rect>"
    );
}

fn text(out: &mut String, x: f64, y: f64, what: &str) {
    let _ = writeln!(out, "<text x=\"{x:.2}\" y=\"{y:.2}\">{}</text>", escaped(what));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
