//! One client: a connection that is kept alive, and streamed completions.

use super::ServerUrl;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io;
use std::time::Instant;
use tokio::net::TcpStream;

/// A completed request.
pub(super) struct Completion {
    pub(super) prompt_tokens: usize,
    pub(super) decode_tokens: usize,
    /// Time to first token.
    pub(super) first_ms: f64,
    /// Times between texts.
    pub(super) between_ms: Vec<f64>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    #[error("the connection broke: {0}")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be sent: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("status {0}: {1}")]
    Status(StatusCode, String),
    #[error("the stream has an error: {0}")]
    Stream(String),
    #[error("the stream has no usage: stream_options.include_usage is not supported")]
    NoUsage,
}

/// A client.
pub(super) struct Client {
    url: ServerUrl,
    api_key: Option<String>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) fn new(url: ServerUrl, api_key: Option<String>) -> Self {
        Client { url, api_key, connection: None }
    }

    /// Streams a completion of that many tokens; end-of-text, token 0, is ruled out.
    pub(super) async fn complete(&mut self, prompt: &str, tokens: usize) -> Result<Completion, RequestError> {
        let body = json!({
            "model": "any",
            "prompt": prompt,
            "max_tokens": tokens,
            "logit_bias": { "0": -100 },
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let begun = Instant::now();
        let mut response = self.send(body.to_string()).await?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            return Err(RequestError::Status(status, String::from_utf8_lossy(&body).into_owned()));
        }
        let (mut events, mut texts, mut usage) = (Events::default(), Vec::new(), None);
        while let Some(frame) = response.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            for event in events.push(&data) {
                if let Some(error) = event.get("error") {
                    return Err(RequestError::Stream(error.to_string()));
                }
                if event["choices"][0]["text"].as_str().is_some_and(|text| !text.is_empty()) {
                    texts.push(begun.elapsed().as_secs_f64() * 1e3);
                }
                if event["usage"].is_object() {
                    usage = Some(event["usage"].clone());
                }
            }
        }
        let usage = usage.ok_or(RequestError::NoUsage)?;
        let count = |field: &str| usage[field].as_u64().unwrap_or(0) as usize;
        Ok(Completion {
            prompt_tokens: count("prompt_tokens"),
            decode_tokens: count("completion_tokens"),
            first_ms: texts.first().copied().unwrap_or_else(|| begun.elapsed().as_secs_f64() * 1e3),
            between_ms: texts.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        })
    }

    async fn send(&mut self, body: String) -> Result<hyper::Response<hyper::body::Incoming>, RequestError> {
        let mut request = Request::post("/v1/completions")
            .header(header::HOST, format!("{}:{}", self.url.host, self.url.port))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.api_key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        // The server may have closed the connection.
        let kept = match self.connection.take() {
            Some(mut connection) => connection.ready().await.is_ok().then_some(connection),
            None => None,
        };
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let response = connection.send_request(request).await?;
        self.connection = Some(connection);
        Ok(response)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, RequestError> {
        let host = self.url.host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((host, self.url.port)).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        // An error reaches the sender, too.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// Server-sent events from bytes in pieces.
#[derive(Default)]
struct Events(Vec<u8>);

impl Events {
    /// The events that these bytes complete.
    fn push(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.0.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if let Some(data) = line.strip_prefix(b"data: ") {
                // The last one, [DONE], is no JSON.
                events.extend(serde_json::from_slice::<Value>(data).ok().filter(Value::is_object));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_do_not_depend_on_how_bytes_are_cut() {
        let text = b"data: {\"a\":1}\n\n: keep-alive\n\ndata: {\"a\":2}\r\n\r\ndata: [DONE]\n\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<Value> = text.chunks(size).flat_map(|part| events.push(part)).collect();
            assert_eq!(found, [json!({ "a": 1 }), json!({ "a": 2 })], "{size}");
        }
    }
}
