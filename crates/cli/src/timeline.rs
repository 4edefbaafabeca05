//! `--timeline`: timelines as files for Perfetto and chrome://tracing:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU> ("Trace Event Format", JSON object).

use crate::failure::Failure;
use crate::out;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use wgoose_runtime::timeline::{Span, Timeline};

/// The option, for verbs that run a model.
#[derive(clap::Args)]
#[command(next_help_heading = "Device and plan")]
pub(crate) struct TimelineOptions {
    /// Write a timeline of the run to this file, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    timeline: Option<PathBuf>,
}

impl TimelineOptions {
    /// A timeline that collects if it is to be written.
    pub(crate) fn begin(&self) -> Timeline {
        if self.timeline.is_some() { Timeline::on() } else { Timeline::off() }
    }

    /// Writes the timeline, if it was asked for.
    pub(crate) fn write(&self, timeline: &Timeline, origin: Instant) -> Result<(), Failure> {
        match &self.timeline {
            Some(path) => write(path, timeline, origin),
            None => Ok(()),
        }
    }
}

/// Writes a file of a timeline that begins at `origin`, whole or not at all. The thread that calls is named `main`.
pub(crate) fn write(path: &Path, timeline: &Timeline, origin: Instant) -> Result<(), Failure> {
    Ok(out::file(path, &serde_json::to_vec(&events(timeline.spans(), origin))?)?)
}

fn events(mut spans: Vec<Span>, origin: Instant) -> Value {
    // Viewers nest spans of one thread in the order of the file where they begin together: the longer one first.
    spans.sort_by_key(|s| (s.start, std::cmp::Reverse(s.end)));
    let process = std::process::id();
    let name = |tid: usize, name: &str| json!({ "name": "thread_name", "ph": "M", "pid": process, "tid": tid, "args": { "name": name } });
    let main = Some(std::thread::current().id());
    let mut tids: HashMap<Option<ThreadId>, usize> = HashMap::from([(main, 1), (None, 2)]);
    let mut events = vec![name(1, "main"), name(2, "GPU")];
    for span in &spans {
        let next = tids.len() + 1;
        let tid = *tids.entry(span.thread).or_insert_with(|| {
            events.push(name(next, &format!("worker {}", next - 2)));
            next
        });
        events.push(json!({
            "name": span.name,
            "cat": span.track.name(),
            "ph": "X",
            "pid": process,
            "tid": tid,
            "ts": microseconds(span.start.saturating_duration_since(origin)),
            "dur": microseconds(span.end.saturating_duration_since(span.start)),
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_runtime::timeline::Track;

    #[test]
    fn threads_and_the_gpu_have_rows_of_their_own() {
        let (timeline, origin) = (Timeline::on(), Instant::now());
        drop(timeline.span(Track::Map, "here"));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(timeline.span(Track::Upload, "there")));
        });
        let at = |us: u64| origin + Duration::from_micros(us);
        timeline.device_span(Track::Compute, "inner", at(10_000_000), at(10_000_010));
        timeline.device_span(Track::Compute, "outer", at(10_000_000), at(10_000_500));
        let file = events(timeline.spans(), origin);
        let events = file["traceEvents"].as_array().unwrap();
        let named = |name: &str| events.iter().position(|e| e["name"] == name).unwrap();
        let tid = |name: &str| events[named(name)]["tid"].as_u64().unwrap();
        assert_eq!((tid("here"), tid("outer"), tid("there")), (1, 2, 3));
        assert!(named("outer") < named("inner"));
        let outer = &events[named("outer")];
        assert_eq!((&outer["ts"], &outer["dur"], &outer["cat"]), (&json!(1e7), &json!(500.0), &json!("compute")));
        let names: Vec<_> = events.iter().filter(|e| e["ph"] == "M").map(|e| (&e["tid"], &e["args"]["name"])).collect();
        assert_eq!(names, [(&json!(1), &json!("main")), (&json!(2), &json!("GPU")), (&json!(3), &json!("worker 1"))]);
    }
}
