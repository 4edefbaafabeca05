//! A server without a model, for fuzzers and tests of what strangers send.

use crate::api::{self, Served};
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::states::States;
use crate::{ServeError, ServeOptions};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use wgoose_graph::ModelShape;
use wgoose_session::grammar::GrammarCompiler;
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{ChatFormat, EmbedOptions};

/// Most bytes of the stored states.
const STATE_BYTES: u64 = 1 << 20;

/// Parses requests as a server does. Where it would ask the model, it answers with status 503.
pub struct ServerWithoutModel {
    runtime: Runtime,
    routes: TowerToHyperService<Router>,
}

impl ServerWithoutModel {
    /// A server that stores states of such a model in a folder.
    ///
    /// # Errors
    /// The folder cannot be made, or the system has no thread left.
    pub fn new(folder: &Path, shape: ModelShape, fingerprint: String) -> Result<Self, ServeError> {
        let states = States::open(folder, STATE_BYTES, shape, fingerprint);
        let states = states.map_err(|why| ServeError::States(why.to_string()))?;
        let tokenizer = Tokenizer::world();
        let served = Served {
            options: ServeOptions::default(),
            engine: Engine::ended(),
            tokenizer: tokenizer.clone(),
            format: ChatFormat::default(),
            grammars: Arc::new(GrammarCompiler::new(tokenizer.clone(), shape.vocab as usize)),
            embedding: EmbedOptions::default(),
            states: Some(Arc::new(states)),
            metrics: Arc::new(Metrics::new()),
            access_log: None,
            capacity: 1,
            adapters: Vec::new(),
            since: 0,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(ServerWithoutModel { runtime, routes: TowerToHyperService::new(api::router(Arc::new(served))) })
    }

    /// The status of the answer to a POST request.
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> u16 {
        let request = Request::post(path).header(header::CONTENT_TYPE, content_type);
        let Ok(request) = request.body(Body::from(body.to_vec())) else { return 400 };
        match self.runtime.block_on(self.routes.call(request)) {
            Ok(response) => response.status().as_u16(),
            Err(never) => match never {},
        }
    }
}
