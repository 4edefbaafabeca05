//! A profile as a timeline: the dispatches of one pass on the GPU's track, one after another, below their layers.

use super::report::ProfileReport;
use std::time::{Duration, Instant};
use wgoose_runtime::timeline::{Timeline, Track};

/// The timeline of a pass that begins at `origin`. Dispatches are as long as they were measured, timestamps included.
pub(super) fn of(report: &ProfileReport, origin: Instant) -> Timeline {
    let timeline = Timeline::on();
    let mut at = 0.0;
    let instant = |us: f64| origin + Duration::from_nanos((us * 1e3) as u64);
    for layer in report.dispatches.chunk_by(|a, b| a.layer == b.layer) {
        let begun = at;
        for dispatch in layer {
            let name = format!("{} {}", dispatch.role, dispatch.kernel);
            timeline.device_span(Track::Compute, name, instant(at), instant(at + dispatch.timestamped_us));
            at += dispatch.timestamped_us;
        }
        let name = layer[0].layer.map_or_else(|| "outside".to_owned(), |layer| format!("layer {layer}"));
        timeline.device_span(Track::Compute, name, instant(begun), instant(at));
    }
    timeline
}
