//! The HTTP interface: paths and their handlers.

mod answer;
mod chat;
mod completions;
mod embeddings;
mod fields;
mod generation;
mod lightning;
mod logprobs;
mod messages;
mod progress;
mod refused;
mod rerank;
mod response_input;
mod responses;
mod start;
mod states;
mod stream;
mod structure;
mod texts;
mod thoughts;
mod tokens;
mod tools;

use crate::ServeOptions;
use crate::access::AccessLog;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::states::{StateOwner, States};
use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
pub(crate) use refused::Refused;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::timeout;
use wgoose_loader::adapter::MergedAdapter;
use wgoose_session::grammar::GrammarCompiler;
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{ChatFormat, EmbedOptions};

/// The state that all handlers share.
pub(crate) struct Served {
    pub(crate) options: ServeOptions,
    pub(crate) engine: Engine,
    pub(crate) tokenizer: Tokenizer,
    /// How conversations are written.
    pub(crate) format: ChatFormat,
    pub(crate) grammars: Arc<GrammarCompiler>,
    /// Embedding options of the model.
    pub(crate) embedding: EmbedOptions,
    /// States in a folder, if the server has one.
    pub(crate) states: Option<Arc<States>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Most sequences in the batch.
    pub(crate) capacity: usize,
    /// The adapters that were merged into the model.
    pub(crate) adapters: Vec<MergedAdapter>,
    /// Time of the start, in seconds since 1970.
    pub(crate) since: u64,
}

impl Served {
    /// The text of tokens. Bytes that are no character and tokens outside the vocabulary become U+FFFD.
    fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|token| self.tokenizer.token(*token).unwrap_or(b"\xff")).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn model(&self) -> Value {
        let id = &self.options.model;
        json!({ "id": id, "object": "model", "created": self.since, "owned_by": "wgoose" })
    }
}

/// Extracts the shared state.
type Shared = State<Arc<Served>>;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    let mut response = (status, value.to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The routes.
pub(crate) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chats))
        .route("/v1/responses", post(respond))
        .route("/v1/responses/{id}", get(response).delete(delete_state))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/rerank", post(rerank))
        .route("/v1/states", get(states).post(upload))
        .route("/v1/states/{id}", get(download).delete(delete_state))
        .route("/v1/conversations", get(conversations))
        .route("/v1/conversations/{id}", get(conversation).delete(delete_conversation))
        .route("/v1/batch/completions", post(batch))
        .route("/v1/state/upload", post(upload_file))
        .route("/v1/state/list", get(list_files).post(list_files))
        .route("/v1/state/delete", post(delete_file).delete(delete_file))
        .route("/v1/tokens/count", post(count_tokens))
        .route("/v1/server/status", get(status))
        .route("/v1/adapters", get(adapters))
        .route("/state/chat/completions", post(session))
        .route("/openai/v1/models", get(models))
        .route("/openai/v1/chat/completions", post(chats))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&served), count))
        .with_state(served)
}

/// Counts answers by path and status.
async fn count(State(served): Shared, path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let path = path.as_ref().map_or("other", MatchedPath::as_str);
    served.metrics.answered(path, response.status().as_u16());
    response
}

/// Reads the body of a request, within the limits of size and time.
async fn body(served: &Served, body: Body, most: usize) -> Result<Vec<u8>, Refused> {
    match timeout(served.options.patience, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(_)) => {
            let why = format!("the body breaks off, or has more than the {most} bytes allowed");
            Err(Refused::with(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Err(_) => Err(Refused::with(StatusCode::REQUEST_TIMEOUT, "the body came too slowly")),
    }
}

/// The chat page. The policy allows what it needs: its own script and style, and requests to this server.
async fn page() -> Response {
    const PAGE: &str = include_str!("../page.html");
    const POLICY: &str = "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; \
                          script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
                          frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE).into_response()
}

async fn health(State(served): Shared) -> Response {
    match served.engine.is_well() {
        true => json(StatusCode::OK, &json!({ "status": "ok" })),
        false => json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "the model failed" })),
    }
}

async fn metrics(State(served): Shared) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], served.metrics.text()).into_response()
}

async fn models(State(served): Shared) -> Response {
    json(StatusCode::OK, &json!({ "object": "list", "data": [served.model()] }))
}

async fn model(State(served): Shared, Path(model): Path<String>) -> Result<Response, Refused> {
    match model == served.options.model {
        true => Ok(json(StatusCode::OK, &served.model())),
        false => {
            let why = format!("there is no model '{model}', '{}' is served", served.options.model);
            Err(Refused::with(StatusCode::NOT_FOUND, why))
        }
    }
}

async fn completions(State(served): Shared, headers: HeaderMap, asked: Body) -> Result<Response, Refused> {
    lightning::completions(&served, &headers, &body(&served, asked, served.options.max_body).await?).await
}

async fn chats(State(served): Shared, headers: HeaderMap, asked: Body) -> Result<Response, Refused> {
    lightning::chat(&served, &headers, &body(&served, asked, served.options.max_body).await?).await
}

async fn batch(State(served): Shared, headers: HeaderMap, asked: Body) -> Result<Response, Refused> {
    lightning::batch(&served, &headers, &body(&served, asked, served.options.max_body).await?).await
}

async fn session(State(served): Shared, headers: HeaderMap, asked: Body) -> Result<Response, Refused> {
    lightning::session(&served, &headers, &body(&served, asked, served.options.max_body).await?).await
}

async fn upload_file(State(served): Shared, headers: HeaderMap, asked: Body) -> Result<Response, Refused> {
    let body = body(&served, asked, served.options.max_state).await?;
    lightning::upload(&served, &headers, body).await
}

async fn list_files(State(served): Shared) -> Result<Response, Refused> {
    lightning::list(&served).await
}

async fn delete_file(
    State(served): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    asked: Body,
) -> Result<Response, Refused> {
    let body = body(&served, asked, served.options.max_body).await?;
    lightning::delete(&served, &headers, query.as_deref(), &body).await
}

async fn count_tokens(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    lightning::count(&served, &body(&served, asked, served.options.max_body).await?)
}

async fn status(State(served): Shared) -> Response {
    lightning::status(&served)
}

async fn adapters(State(served): Shared) -> Response {
    lightning::adapters(&served)
}

async fn respond(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    responses::respond(&served, &body(&served, asked, served.options.max_body).await?).await
}

async fn response(State(served): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    responses::retrieve(&served, id).await
}

async fn embeddings(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    embeddings::embed(&served, &body(&served, asked, served.options.max_body).await?).await
}

async fn rerank(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    rerank::rerank(&served, &body(&served, asked, served.options.max_body).await?).await
}

async fn states(State(served): Shared) -> Result<Response, Refused> {
    states::list(&served, StateOwner::Server).await
}

async fn upload(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    let body = body(&served, asked, served.options.max_state).await?;
    states::upload(&served, body).await
}

async fn download(State(served): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    states::download(&served, id).await
}

async fn delete_state(State(served): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    states::delete(&served, StateOwner::Server, id).await
}

async fn conversations(State(served): Shared) -> Result<Response, Refused> {
    states::list(&served, StateOwner::Client).await
}

async fn conversation(State(served): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    states::conversation(&served, id).await
}

async fn delete_conversation(State(served): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    states::delete(&served, StateOwner::Client, id).await
}

async fn tokenize(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    tokens::tokenize(&served, &body(&served, asked, served.options.max_body).await?)
}

async fn detokenize(State(served): Shared, asked: Body) -> Result<Response, Refused> {
    tokens::detokenize(&served, &body(&served, asked, served.options.max_body).await?)
}

async fn unknown(request: Request) -> Refused {
    Refused::with(StatusCode::NOT_FOUND, format!("there is no {}", request.uri().path()))
}

async fn wrong_method(method: Method, request: Request) -> Refused {
    Refused::with(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for {}", request.uri().path()))
}
