//! How long each kind of work took, whichever threads did it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wgoose_runtime::timeline::{Span, Track};

/// For each track with spans: the time during which at least one was open.
pub(super) fn busy(spans: &[Span]) -> BTreeMap<Track, Duration> {
    let mut by_start: Vec<&Span> = spans.iter().collect();
    by_start.sort_by_key(|s| s.start);
    let mut tracks: BTreeMap<Track, (Duration, Instant)> = BTreeMap::new();
    for span in by_start {
        let (busy, until) = tracks.entry(span.track).or_insert((Duration::ZERO, span.start));
        *busy += span.end.saturating_duration_since(span.start.max(*until));
        *until = span.end.max(*until);
    }
    tracks.into_iter().map(|(track, (busy, _))| (track, busy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_count_once() {
        let origin = Instant::now();
        let span = |track, start, end| Span {
            track,
            name: "".into(),
            thread: None,
            start: origin + Duration::from_secs(start),
            end: origin + Duration::from_secs(end),
        };
        let spans = [
            span(Track::Upload, 20, 21), // as they end, not as they begin
            span(Track::Upload, 1, 4),
            span(Track::Upload, 0, 10),
            span(Track::Upload, 8, 12),
            span(Track::Map, 3, 5),
        ];
        let busy: Vec<_> = busy(&spans).into_iter().map(|(t, d)| (t, d.as_secs())).collect();
        assert_eq!(busy, [(Track::Map, 2), (Track::Upload, 13)]);
    }
}
