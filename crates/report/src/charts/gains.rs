//! How many times as fast plans are as what they are held against, with intervals.

use super::super::drawing::{Anchor, Axis, Drawing, WIDTH};
use super::super::numbers::gain;

const MARGIN: f64 = 16.0;
const ROW: f64 = 42.0;

/// How many times as fast in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Its name.
    pub name: String,
    /// What it took before and takes now, in words.
    pub detail: String,
    /// How many times as fast.
    pub gain: f64,
    /// The ends of its interval.
    pub interval: [f64; 2],
}

/// A drawing with a row for each; at ×1 is what they are held against.
pub fn gains(title: &str, against: &str, rows: &[Gain]) -> String {
    let ends = rows.iter().flat_map(|row| row.interval);
    let (least, most) = ends.fold((0.95f64, 1.05f64), |(a, b), x| (a.min(x), b.max(x)));
    let axis = Axis::log([least / 1.03, most * 1.03], [MARGIN, WIDTH - MARGIN]);
    let described: Vec<String> = rows.iter().map(|row| format!("{}: {}", row.name, gain(row.gain))).collect();
    let mut drawing = Drawing::new(title, &described.join("; "));
    let bottom = ROW * rows.len() as f64 + 8.0;
    for tick in axis.ticks(38.0) {
        let x = axis.at(tick);
        drawing.line((x, 6.0), (x, bottom), "grid");
        drawing.text((x, bottom + 14.0), Anchor::Middle, "tick", &format!("×{}", (tick * 100.0).round() / 100.0));
    }
    drawing.line((axis.at(1.0), 6.0), (axis.at(1.0), bottom), "roof");
    drawing.line((MARGIN, bottom), (WIDTH - MARGIN, bottom), "axis");
    let label = format!("← slower · as fast as the {against} at ×1 · faster →");
    drawing.text((WIDTH / 2.0, bottom + 29.0), Anchor::Middle, "label", &label);
    for (i, row) in rows.iter().enumerate() {
        let y = ROW * i as f64 + 33.0;
        let [low, high] = row.interval.map(|x| axis.at(x));
        drawing.rect((MARGIN, y - 26.0), (WIDTH - 2.0 * MARGIN, 14.0), "plate", 1.0);
        drawing.text((MARGIN, y - 15.0), Anchor::Start, "name", &row.name);
        drawing.text((WIDTH - MARGIN, y - 15.0), Anchor::End, "value", &row.detail);
        drawing.line((low, y), (high, y), "interval");
        [low, high].iter().for_each(|x| drawing.line((*x, y - 6.0), (*x, y + 6.0), "interval"));
        drawing.circle((axis.at(row.gain), y), 3.5, "dot");
    }
    drawing.svg(bottom + 36.0)
}
