//! `/v1/server/status`: what the server can do, and how busy it is. Requests are counted, not listed: each client sees
//! its own answers only.

use crate::api::Served;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

/// Version of the interface.
const API_VERSION: &str = "1.3";

pub(in crate::api) fn status(served: &Served) -> Response {
    let (model, has_states) = (&served.options.model, served.states.is_some());
    let (running, waiting) = (served.metrics.running.get(), served.metrics.waiting.get());
    let free = i64::try_from(served.capacity).unwrap_or(i64::MAX).saturating_sub(running).max(0);
    let body = json!({
        "status": if served.engine.is_well() { "running" } else { "failed" },
        "api_version": API_VERSION,
        "engine_version": concat!("wgoose-", env!("CARGO_PKG_VERSION")),
        "model": { "id": model, "name": model, "loaded": true },
        "capabilities": {
            "chat_messages": true,
            "completion": true,
            "batch_completion": true,
            "stream": true,
            "stop": false,
            "token_count": true,
            "metrics": false,
            "session_cache": has_states,
            "pause_resume": false,
            "think_type": true,
            "concurrent_generation": true,
            "chunk_prefill": true,
        },
        "prefill_queue": {
            "hard_max_bsz": served.capacity,
            "dynamic_max_bsz": served.capacity,
            "reserved_bsz": running,
            "available_bsz": free,
            "queued_requests": waiting,
        },
        "active_request": Value::Null,
        "active_requests": [],
        "last_request": Value::Null,
        "paused_requests": [],
    });
    crate::api::json(StatusCode::OK, &body)
}
