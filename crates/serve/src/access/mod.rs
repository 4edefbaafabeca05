//! The access log: one line of JSON for each request. It has no text, no key, no name of a state and no query: of a
//! path only the route, of a refusal only the status.

mod body;
mod record;
mod writer;

use crate::api::Served;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use body::RecordedBody;
pub(crate) use record::{End, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
pub(crate) use writer::AccessLog;

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    /// The record of the request that this task answers.
    static CURRENT: Arc<Record>;
}

/// The record of the request that this task answers; `None` without a log.
pub(crate) fn current() -> Option<Arc<Record>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Gives each request an id, and records it.
pub(crate) async fn record(
    State(served): State<Arc<Served>>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let id = new_id();
    let header = HeaderValue::from_str(&id);
    let mut response = match &served.access_log {
        None => next.run(request).await,
        Some(log) => {
            let path = path.as_ref().map_or("other", MatchedPath::as_str);
            let record = Arc::new(Record::begin(Arc::clone(log), id, request.method(), path));
            // If the client disconnects now, nothing after this runs, and the record says so.
            let response = CURRENT.scope(Arc::clone(&record), next.run(request)).await;
            record.answered(response.status());
            response.map(|body| Body::new(RecordedBody::new(body, record)))
        }
    };
    if let Ok(id) = header {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// An id that no other request has.
fn new_id() -> String {
    static IDS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
    format!("req-{now:x}-{:x}", IDS.fetch_add(1, Ordering::Relaxed))
}
