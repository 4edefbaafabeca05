//! The course of a search over time.

use super::super::course::{Course, SearchProgress};
use super::super::drawing::{Anchor, Axis, Drawing, WIDTH};
use super::super::numbers::{count, digits, gain, time};
use wgoose_measure::stats::drift::TOLERANCE;

const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 190.0;

/// Plans slower than that are drawn at the edge.
const SLOWEST: f64 = 0.7;

/// The best plan so far against the seconds that were spent; the plans that were tried are marks.
pub(in super::super) fn progress(progress: &SearchProgress, course: &Course) -> String {
    let gains = progress.attempts.iter().map(|a| a.gain).chain(progress.best.iter().map(|(_, gain)| *gain));
    let (least, most) = gains.fold((0.98f64, 1.05f64), |(a, b), x| (a.min(x), b.max(x)));
    let y = Axis::log([least.max(SLOWEST) / 1.01, most * 1.01], [BOTTOM, TOP + 16.0]);
    let x = seconds(course);
    let last = progress.best.last().map_or(1.0, |(_, gain)| *gain);
    let described = format!(
        "{} plans were tried; the best at the end is {} times as fast as the default",
        count(progress.attempts.len() as u64),
        gain(last).trim_start_matches('×')
    );
    let mut drawing = Drawing::new(&format!("Best plan so far in {}", progress.scenario), &described);
    frame(&mut drawing, (&x, &y), course, &|tick| format!("×{}", (tick * 100.0).round() / 100.0));
    drawing.line((LEFT, y.at(1.0)), (RIGHT, y.at(1.0)), "roof");
    for attempt in &progress.attempts {
        let place = (x.at(attempt.at), y.at(attempt.gain));
        if attempt.is_compared { drawing.circle(place, 3.2, "dot") } else { drawing.circle(place, 2.4, "ring") }
    }
    let mut points = vec![(x.at(0.0), y.at(1.0))];
    for (at, gain) in &progress.best {
        let before = points.last().map_or(y.at(1.0), |(_, y)| *y);
        points.extend([(x.at(*at), before), (x.at(*at), y.at(*gain))]);
    }
    points.push((x.at(course.spent), points.last().map_or(y.at(1.0), |(_, y)| *y)));
    drawing.polyline(&points, "best");
    let end = (x.at(course.spent), y.at(last) - 8.0);
    drawing.text(end, Anchor::End, "value", &gain(last));
    drawing.svg(BOTTOM + 36.0)
}

/// The control kernel: how far its times are from those of its first visit, in per cent.
pub(in super::super) fn control(course: &Course) -> Option<String> {
    let first = course.control.first()?.ns.median;
    let percent = |ns: f64| 100.0 * (ns / first - 1.0);
    let ends = course.control.iter().flat_map(|visit| [visit.ns.min, visit.ns.q3, visit.ns.median].map(percent));
    let tolerated = 100.0 * TOLERANCE;
    let most = ends.fold(1.5 * tolerated, |most, x| most.max(x.abs()));
    let (x, y) = (seconds(course), Axis::linear([-1.05 * most, 1.05 * most], [BOTTOM, TOP]));
    let described = format!("{} visits; at first it takes {}", course.control.len(), time(first));
    let mut drawing = Drawing::new("Times of the control kernel", &described);
    let band = [tolerated, -tolerated].map(|p| y.at(p));
    drawing.rect((LEFT, band[0]), (RIGHT - LEFT, band[1] - band[0]), "band", 0.14);
    frame(&mut drawing, (&x, &y), course, &|tick| format!("{:+} %", (tick * 100.0).round() / 100.0));
    let points: Vec<(f64, f64)> =
        course.control.iter().map(|visit| (x.at(visit.at), y.at(percent(visit.ns.median)))).collect();
    drawing.polyline(&points, "thread");
    for (visit, (x, middle)) in course.control.iter().zip(points) {
        drawing.line((x, y.at(percent(visit.ns.q1))), (x, y.at(percent(visit.ns.q3))), "interval");
        drawing.circle((x, middle), 3.2, "dot");
    }
    Some(drawing.svg(BOTTOM + 36.0))
}

fn seconds(course: &Course) -> Axis {
    Axis::linear([0.0, course.spent.max(1.0) * 1.02], [LEFT, RIGHT])
}

/// Axes with their names, and the end of the budget if it was reached.
fn frame(drawing: &mut Drawing, (x, y): (&Axis, &Axis), course: &Course, name: &dyn Fn(f64) -> String) {
    for tick in y.ticks(20.0) {
        drawing.line((LEFT, y.at(tick)), (RIGHT, y.at(tick)), "grid");
        drawing.text((LEFT - 5.0, y.at(tick) + 4.0), Anchor::End, "tick", &name(tick));
    }
    drawing.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
    for tick in x.ticks(36.0) {
        drawing.line((x.at(tick), BOTTOM), (x.at(tick), BOTTOM + 4.0), "axis");
        drawing.text((x.at(tick), BOTTOM + 15.0), Anchor::Middle, "tick", &format!("{}", (tick * 1e3).round() / 1e3));
    }
    let budget = course.budget.map_or(String::new(), |budget| format!(" of {} s", digits(budget)));
    let label = format!("seconds spent{budget}");
    drawing.text(((LEFT + RIGHT) / 2.0, BOTTOM + 30.0), Anchor::Middle, "label", &label);
}
