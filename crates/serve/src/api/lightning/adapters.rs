//! `/v1/adapters`: the adapters that were merged into the model when the server was started.

use crate::api::Served;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use wgoose_loader::adapter::MergedAdapter;

fn entry(adapter: &MergedAdapter) -> Value {
    let name = adapter.path.file_stem().unwrap_or(adapter.path.as_os_str()).to_string_lossy();
    let manifest =
        json!({ "rank": adapter.rank, "scale": adapter.scale, "targets": [], "kinds": adapter.kinds.as_slice() });
    json!({ "id": name, "version": adapter.digest, "manifest": manifest })
}

/// Lists them. They have no memory besides the weights, so that the figures of it are 0.
pub(in crate::api) fn adapters(served: &Served) -> Response {
    let data: Vec<Value> = served.adapters.iter().map(entry).collect();
    let figures =
        ["ram_hits", "gpu_hits", "gpu_misses", "uploads", "h2d_ms", "ram_bytes", "gpu_bytes", "gpu_peak_bytes"];
    let mut list = json!({ "object": "list", "data": data });
    figures.iter().for_each(|name| list[name] = 0.into());
    crate::api::json(StatusCode::OK, &list)
}
