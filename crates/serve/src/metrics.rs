//! Metrics for Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    /// Answers by path and status.
    answers: Family<Vec<(String, String)>, Counter>,
    /// Sequences in the batch.
    pub(crate) running: Gauge,
    /// Queued sequences.
    pub(crate) waiting: Gauge,
    /// Tokens of prompts.
    pub(crate) prompt_tokens: Counter,
    /// Tokens of prompts that the prefix cache had.
    pub(crate) cached_tokens: Counter,
    /// Generated tokens.
    pub(crate) generated_tokens: Counter,
    /// Seconds from a request to its first text.
    first_text: Histogram,
    /// Seconds between two pieces of text.
    between_texts: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("wgoose");
        let seconds = |smallest: f64| Histogram::new((0..14).map(|n| smallest * f64::from(1 << n)));
        let answers = Family::<Vec<(String, String)>, Counter>::default();
        let (running, waiting) = (Gauge::default(), Gauge::default());
        let (prompt_tokens, cached_tokens, generated_tokens) = <(Counter, Counter, Counter)>::default();
        let (first_text, between_texts) = (seconds(0.005), seconds(0.001));
        registry.register("requests", "Answers, by path and status", answers.clone());
        registry.register("running", "Sequences in the batch", running.clone());
        registry.register("waiting", "Queued sequences", waiting.clone());
        registry.register("prompt_tokens", "Tokens of prompts", prompt_tokens.clone());
        registry.register("cached_tokens", "Tokens of prompts that the prefix cache had", cached_tokens.clone());
        registry.register("generated_tokens", "Generated tokens", generated_tokens.clone());
        let (first, between) = (first_text.clone(), between_texts.clone());
        registry.register_with_unit("first_text", "Time from a request to its first text", Unit::Seconds, first);
        registry.register_with_unit("between_texts", "Time between two pieces of a text", Unit::Seconds, between);
        Metrics {
            registry,
            answers,
            running,
            waiting,
            prompt_tokens,
            cached_tokens,
            generated_tokens,
            first_text,
            between_texts,
        }
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, path: &str, status: u16) {
        let labels = vec![("path".to_owned(), path.to_owned()), ("status".to_owned(), status.to_string())];
        self.answers.get_or_create(&labels).inc();
    }

    /// Records a piece of text: the time since the request if it is the first one, else since the previous one.
    pub(crate) fn text_came(&self, is_first: bool, after: Duration) {
        let histogram = if is_first { &self.first_text } else { &self.between_texts };
        histogram.observe(after.as_secs_f64());
    }

    /// All metrics in the OpenMetrics text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
