//! When what happened: spans of mapping, uploading, compiling and computing, for reports and Chrome traces.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

/// What a span was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// Opening a device.
    Device,
    /// Mapping and checking a model file.
    Map,
    /// Making kernels' texts and scheduling passes.
    Schedule,
    /// Making buffers.
    Allocate,
    /// Filling staging memory, for copies to the device.
    Upload,
    /// Compiling pipelines, or taking them from the cache.
    Compile,
    /// Encoding and submitting copies and passes.
    Submit,
    /// Computing on the device, from submission until it is known to be done.
    Compute,
    /// Decode, from the call until all tokens are known.
    Decode,
}

impl Track {
    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Track::Device => "device",
            Track::Map => "map",
            Track::Schedule => "schedule",
            Track::Allocate => "allocate",
            Track::Upload => "upload",
            Track::Compile => "compile",
            Track::Submit => "submit",
            Track::Compute => "compute",
            Track::Decode => "decode",
        }
    }
}

/// Something that took time.
#[derive(Clone, Debug)]
pub struct Span {
    /// What it was spent on.
    pub track: Track,
    /// What exactly.
    pub name: Cow<'static, str>,
    /// Where: spans of one thread do not overlap, unless one contains the other. `None` for the device.
    pub thread: Option<ThreadId>,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// Collects spans while it is on; costs nothing while it is off. Clones share their spans.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Option<Arc<Mutex<Vec<Span>>>>);

impl Timeline {
    /// A timeline that collects.
    pub fn on() -> Self {
        Timeline(Some(Arc::default()))
    }

    /// A timeline that does not.
    pub fn off() -> Self {
        Timeline(None)
    }

    /// Whether spans are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span of this thread that ends when the guard is dropped.
    pub fn span(&self, track: Track, name: impl Into<Cow<'static, str>>) -> SpanGuard<'_> {
        SpanGuard(self.0.is_some().then(|| (self, track, name.into(), Instant::now())))
    }

    /// A span of the device.
    pub fn device_span(&self, track: Track, name: impl Into<Cow<'static, str>>, start: Instant, end: Instant) {
        self.push(Span { track, name: name.into(), thread: None, start, end });
    }

    /// The spans that have ended, in the order in which they did.
    pub fn spans(&self) -> Vec<Span> {
        match &self.0 {
            Some(spans) => spans.lock().clone(),
            None => Vec::new(),
        }
    }

    fn push(&self, span: Span) {
        if let Some(spans) = &self.0 {
            spans.lock().push(span);
        }
    }
}

/// Ends its span when dropped.
#[must_use = "the span ends when this is dropped"]
#[derive(Debug)]
pub struct SpanGuard<'a>(Option<(&'a Timeline, Track, Cow<'static, str>, Instant)>);

impl SpanGuard<'_> {
    /// Changes the name: what a span was spent on may be known only at its end.
    pub(crate) fn rename(&mut self, to: impl Into<Cow<'static, str>>) {
        if let Some((_, _, name, _)) = &mut self.0 {
            *name = to.into();
        }
    }
}

impl Drop for SpanGuard<'_> {
    fn drop(&mut self) {
        if let Some((timeline, track, name, start)) = self.0.take() {
            let thread = Some(std::thread::current().id());
            timeline.push(Span { track, name, thread, start, end: Instant::now() });
        }
    }
}
