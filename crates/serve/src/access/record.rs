//! The record of one request. Its last holder writes it: the answer's body, or the engine if a sequence of a client
//! that has disconnected is still in the batch.

use super::AccessLog;
use axum::http::{Method, StatusCode};
use chrono::{DateTime, SecondsFormat, Utc};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it was sent.
    Complete,
    /// The client disconnected, or took no bytes for too long.
    ClientGone,
    /// The server ended.
    Cut,
}

/// A request that is being answered.
pub(crate) struct Record {
    log: Arc<AccessLog>,
    id: String,
    begun: (SystemTime, Instant),
    method: &'static str,
    path: String,
    is_head: bool,
    known: Mutex<Known>,
}

/// What is known of it so far.
#[derive(Default)]
struct Known {
    status: Option<u16>,
    bytes: u64,
    milliseconds: Option<f64>,
    end: Option<End>,
    texts: Option<TextCounts>,
}

/// Numbers of tokens of the texts of a request.
#[derive(Default)]
struct TextCounts {
    prompt: usize,
    cached: usize,
    /// Tokens of prompts of which nothing was computed, since the client had gone.
    unread: usize,
    generated: usize,
    reasons: Vec<&'static str>,
}

impl Record {
    pub(super) fn begin(log: Arc<AccessLog>, id: String, method: &Method, path: &str) -> Self {
        let begun = (SystemTime::now(), Instant::now());
        let is_head = method == Method::HEAD;
        Record { log, id, begun, method: name(method), path: path.to_owned(), is_head, known: Mutex::default() }
    }

    /// The head of the answer was made.
    pub(super) fn answered(&self, status: StatusCode) {
        self.known.lock().status = Some(status.as_u16());
    }

    /// The answer has no body, whatever its length says.
    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// The answer has ended.
    pub(super) fn ended(&self, bytes: u64, end: End) {
        let mut known = self.known.lock();
        known.bytes = bytes;
        known.end = Some(end);
        known.milliseconds = Some(self.milliseconds());
    }

    /// The answer was dropped before its end.
    pub(super) fn broke_off(&self, bytes: u64) {
        self.ended(bytes, self.log.end_of_dropped());
    }

    /// A text was requested.
    pub(crate) fn text(&self, prompt_tokens: usize) {
        self.known.lock().texts.get_or_insert_default().prompt += prompt_tokens;
    }

    /// The prefix cache had that many tokens of a prompt.
    pub(crate) fn cached(&self, tokens: usize) {
        self.known.lock().texts.get_or_insert_default().cached += tokens;
    }

    /// A text was given up, with that number of tokens still to be prefilled.
    pub(crate) fn given_up(&self, unread: usize, generated: usize) {
        self.known.lock().texts.get_or_insert_default().unread += unread;
        self.generated(generated, "given_up");
    }

    /// A text has ended.
    pub(crate) fn generated(&self, tokens: usize, reason: &'static str) {
        let mut known = self.known.lock();
        let texts = known.texts.get_or_insert_default();
        texts.generated += tokens;
        texts.reasons.push(reason);
    }

    fn milliseconds(&self) -> f64 {
        (self.begun.1.elapsed().as_secs_f64() * 1e4).round() / 10.0
    }

    fn line(&self) -> Value {
        let known = self.known.lock();
        let end = known.end.unwrap_or_else(|| self.log.end_of_dropped());
        let mut line = json!({
            "time": DateTime::<Utc>::from(self.begun.0).to_rfc3339_opts(SecondsFormat::Millis, true),
            "id": self.id,
            "method": self.method,
            "path": self.path,
            "status": known.status,
            "ms": known.milliseconds.unwrap_or_else(|| self.milliseconds()),
            "bytes": known.bytes,
            "client_gone": end == End::ClientGone,
            "cut": end == End::Cut,
        });
        if let Some(TextCounts { prompt, cached, unread, generated, reasons }) = &known.texts {
            line["prompt_tokens"] = (*prompt).into();
            line["cached_tokens"] = (*cached).into();
            line["prefilled_tokens"] = prompt.saturating_sub(cached + unread).into();
            line["generated_tokens"] = (*generated).into();
            line["finish_reasons"] = reasons.as_slice().into();
        }
        line
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.log.write(&self.line());
    }
}

/// The name of a method. Clients can invent others, which are text of theirs.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}
