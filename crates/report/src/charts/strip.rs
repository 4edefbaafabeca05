//! All kernels that were measured at a site, by variant, on one axis of time.

use super::super::drawing::{Anchor, Axis, Drawing, WIDTH};
use super::super::numbers::{count, time};
use super::super::point::Point;
use super::super::sites::Site;

/// The fastest so many variants are drawn.
pub(in super::super) const MOST_VARIANTS: usize = 16;

/// The fastest so many kernels of each are.
pub(in super::super) const MOST_POINTS: usize = 1000;

const MARGIN: f64 = 12.0;
const ROW: f64 = 36.0;

/// A strip for each variant; ticks are kernels.
pub(in super::super) fn strip(site: &Site) -> String {
    let mut variants: Vec<(&str, Vec<(usize, &Point)>)> = Vec::new();
    for (i, point) in site.points.iter().enumerate() {
        match variants.iter_mut().find(|(name, _)| *name == point.variant) {
            Some((_, own)) => own.push((i, point)),
            None => variants.push((&point.variant, vec![(i, point)])),
        }
    }
    let fastest = site.points.first().map_or(1.0, |point| point.ns.median);
    let slowest = site.points.last().map_or(1.0, |point| point.ns.median);
    // A floor far below everything measured would squeeze what was.
    let floor = site.least_ns.filter(|least| *least > fastest / 20.0);
    let from = floor.map_or(fastest, |least| least.min(fastest));
    let axis = Axis::log([from / 1.04, (slowest * 1.04).max(from * 1.3)], [MARGIN, WIDTH - MARGIN]);
    let described = format!(
        "{} kernels of {} variants on a logarithmic axis of time; the fastest takes {}",
        site.points.len(),
        variants.len(),
        time(fastest)
    );
    let mut drawing = Drawing::new(&format!("Kernels measured at {}", site.name), &described);
    variants.truncate(MOST_VARIANTS);
    let bottom = ROW * variants.len() as f64 + 8.0;
    for tick in axis.ticks(52.0) {
        let x = axis.at(tick);
        drawing.line((x, 6.0), (x, bottom), "grid");
        let inside = x.clamp(MARGIN + 12.0, WIDTH - MARGIN - 14.0);
        drawing.text(
            (inside, bottom + 14.0),
            Anchor::Middle,
            "tick",
            &time(tick).replace(".00", "").replace(".0 ", " "),
        );
    }
    drawing.line((MARGIN, bottom), (WIDTH - MARGIN, bottom), "axis");
    drawing.text((WIDTH / 2.0, bottom + 29.0), Anchor::Middle, "label", "time of one dispatch (logarithmic)");
    if let Some(least) = floor {
        drawing.line((axis.at(least), 6.0), (axis.at(least), bottom), "roof");
    }
    for (row, (name, own)) in variants.iter().enumerate() {
        let y = ROW * row as f64 + 30.0;
        let best = own.first().map_or(f64::NAN, |(_, point)| point.ns.median);
        // Behind the names the lines of the grid would be in the way.
        drawing.rect((MARGIN, y - 23.0), (WIDTH - 2.0 * MARGIN, 13.0), "plate", 1.0);
        drawing.text((MARGIN, y - 12.0), Anchor::Start, "name", &format!("{name} · {}", count(own.len() as u64)));
        drawing.text((WIDTH - MARGIN, y - 12.0), Anchor::End, "value", &format!("fastest {}", time(best)));
        for (_, point) in own.iter().take(MOST_POINTS) {
            let x = axis.at(point.ns.median);
            drawing.line((x, y - 6.0), (x, y + 6.0), "point");
        }
        for (marked, is_chosen) in [(&site.default, false), (&site.chosen, true)] {
            let Some((_, Some(place))) = marked else { continue };
            let Some((_, point)) = own.iter().find(|(i, _)| i == place) else { continue };
            let x = axis.at(point.ns.median);
            match is_chosen {
                true => drawing.diamond((x, y), 6.0, "chosen"),
                false => drawing.rect((x - 5.0, y - 5.0), (10.0, 10.0), "default", 0.0),
            }
        }
    }
    drawing.svg(bottom + 36.0)
}
