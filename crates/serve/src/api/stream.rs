//! Server-sent events.

use crate::engine::{TextEvent, Texts};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

/// Interval of keep-alive comments in a stream without text: proxies close silent connections.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Events of a stream that are buffered for a slow client.
const BUFFERED_EVENTS: usize = 16;

/// The client disconnected.
pub(super) struct Disconnected;

/// The sender of a stream.
pub(super) struct EventSender(mpsc::Sender<Result<String, Infallible>>);

/// A response whose events `work` sends. If the client disconnects, `work` is told with the next event.
pub(super) fn stream<F>(work: impl FnOnce(EventSender) -> F) -> Response
where
    F: Future<Output = Result<(), Disconnected>> + Send + 'static,
{
    let (send, events) = mpsc::channel(BUFFERED_EVENTS);
    tokio::spawn(work(EventSender(send)));
    let mut response = Body::from_stream(ReceiverStream::new(events)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Without it nginx buffers the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl EventSender {
    /// Sends an event.
    pub(super) async fn send(&self, value: &Value) -> Result<(), Disconnected> {
        self.text(format!("data: {value}\n\n")).await
    }

    /// Sends an event with the name of its `type`.
    pub(super) async fn send_named(&self, value: &Value) -> Result<(), Disconnected> {
        let name = value["type"].as_str().unwrap_or("error");
        self.text(format!("event: {name}\ndata: {value}\n\n")).await
    }

    /// Sends the last event of chats and completions.
    pub(super) async fn send_done(&self) -> Result<(), Disconnected> {
        self.text("data: [DONE]\n\n".to_owned()).await
    }

    /// Waits for the next event of a text; `None` after the last one.
    pub(super) async fn next(&self, texts: &mut Texts) -> Result<Option<(usize, TextEvent)>, Disconnected> {
        loop {
            let next = tokio::select! {
                next = timeout(KEEP_ALIVE, texts.recv()) => next,
                () = self.0.closed() => return Err(Disconnected),
            };
            match next {
                Ok(event) => return Ok(event),
                Err(_) => self.text(": keep-alive\n\n".to_owned()).await?,
            }
        }
    }

    async fn text(&self, text: String) -> Result<(), Disconnected> {
        self.0.send(Ok(text)).await.map_err(|_| Disconnected)
    }
}
