//! Two tunables against each other: every cell says its number, the colour only repeats it.

use super::super::drawing::{Anchor, Drawing, WIDTH};
use super::super::heat::HeatMap;
use super::super::numbers::{digits, time};

/// So many times the fastest has no colour left.
const PALEST: f64 = 2.0;

const CELL: f64 = 26.0;
const TOP: f64 = 36.0;

/// The map of a site.
pub(in super::super) fn heat(map: &HeatMap, site: &str) -> String {
    let least = map.least_ns();
    let described = format!(
        "Time of the fastest configuration for each pair of values of {} and {}, as a multiple of {}",
        map.columns.0,
        map.rows.0,
        time(least)
    );
    let mut drawing =
        Drawing::new(&format!("{} at {site}: {} by {}", map.variant, map.columns.0, map.rows.0), &described);
    let longest = map.rows.1.iter().map(|value| value.chars().count().min(12)).max().unwrap_or(1);
    let left = (6.5 * longest as f64 + 12.0).max(24.0);
    let width = ((WIDTH - left - 4.0) / map.columns.1.len().max(1) as f64).min(64.0);
    drawing.text((left, 12.0), Anchor::Start, "name", &format!("{} →", map.columns.0));
    for (c, value) in map.columns.1.iter().enumerate() {
        let fits = (width / 6.5) as usize;
        drawing.text((left + width * (c as f64 + 0.5), TOP - 7.0), Anchor::Middle, "tick", &cut(value, fits));
    }
    for (r, cells) in map.cells.iter().enumerate() {
        let y = TOP + CELL * r as f64;
        drawing.text((left - 6.0, y + CELL / 2.0 + 4.0), Anchor::End, "tick", &cut(&map.rows.1[r], 12));
        for (c, cell) in cells.iter().enumerate() {
            let (x, middle) = (left + width * c as f64, (left + width * (c as f64 + 0.5), y + CELL / 2.0 + 4.0));
            let Some(cell) = cell else {
                drawing.rect((x + 1.0, y + 1.0), (width - 2.0, CELL - 2.0), "empty", 0.0);
                continue;
            };
            let times = cell.ns / least;
            let opacity = (1.0 - times.ln() / PALEST.ln()).clamp(0.0, 1.0) * 0.92 + 0.06;
            drawing.rect((x + 1.0, y + 1.0), (width - 2.0, CELL - 2.0), "cell", opacity);
            let number = if times < 9.95 { format!("{times:.2}") } else { digits(times) };
            let number = if width < 27.0 { cut(&number, 3) } else { number };
            drawing.text(middle, Anchor::Middle, shade(opacity), &number);
        }
    }
    let bottom = TOP + CELL * map.cells.len() as f64;
    drawing.text((0.0, bottom + 14.0), Anchor::Start, "name", &format!("↑ {}", map.rows.0));
    drawing.svg(bottom + 20.0)
}

/// The class of a number on a cell of such an opacity: what can be read there in light and in dark.
fn shade(opacity: f64) -> &'static str {
    match opacity {
        o if o > 0.8 => "full",
        o if o > 0.5 => "half",
        _ => "faint",
    }
}

/// At most so many characters; a point at the end says nothing.
fn cut(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most.max(1)).collect();
    cut.trim_end_matches('.').to_owned()
}
