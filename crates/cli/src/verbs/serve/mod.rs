//! `wgoose serve`: a model behind the HTTP interface that programs for OpenAI's speak.

mod answer;
mod request;

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use answer::{Answer, Gone, Heading, Kind};
use request::{Chat, Completion, Embeddings, Refused};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use tiny_http::{Header, Method, Request, Response, Server};
use wgoose_runtime::{BatchError, CancelToken, RuntimeError};
use wgoose_session::{EmbedOptions, Pooling, PrefixOptions, Session, one_line, printable};

/// Serve an OpenAI-compatible HTTP API: completions, chats and embeddings, with streaming.
///
/// Requests are answered one after the other. A prefix cache keeps the state of each chat, so that the next turn
/// prefills only the new text. Chats use the template of the RWKV-7 G1 models. Embedding models (EmbeddingRWKV) use
/// their retrieval head, or the head that a request names: "head": "sts", or "model": "NAME:sts". Unsupported fields,
/// such as tools or logprobs, are refused by name.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose serve model.gguf
  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Honk?\"}]}'")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Address to listen on. Anyone who reaches it can use the model: there are no API keys and no encryption.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    options: RunOptions,
}

/// Most bytes of a request.
const LONGEST: u64 = 16 << 20;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let address = (args.host.as_str(), args.port);
    let server = Server::http(address).map_err(|e| format!("{}:{}: {e}", args.host, args.port))?;
    let moving = Moving::spinner("opening the model and the device")?;
    let builder = args.options.session()?.prefix_cache(Some(PrefixOptions::default()));
    let mut session = builder.open(&args.model)?;
    drop(moving);
    session.tokenizer()?;
    let name = session.model().title();
    eprintln!("listening at http://{}/v1; Ctrl-C ends it", server.server_addr());
    for (request, body) in requests(server) {
        let what = format!("{} {}", request.method(), request.url());
        match body.and_then(|body| route(&mut session, &name, &request, &body)) {
            Ok(Answer::Whole(value)) => respond(request, 200, &value),
            Ok(Answer::Stream(stream)) => {
                if let Err(Gone) = stream.send(&mut session, request) {
                    eprintln!("{}", printable(&format!("{what}: the client disconnected")));
                }
            }
            Err(Refused { status, why }) => {
                eprintln!("{}", printable(&format!("{what}: {status}, {why}")));
                respond(request, status, &json!({ "error": { "message": why, "type": "invalid_request_error" } }));
            }
        }
    }
    Err("the socket cannot be listened at any more".into())
}

/// Requests with their bodies. Each is read on a thread of its own: a slow one holds up no other.
fn requests(server: Server) -> Receiver<(Request, Result<Vec<u8>, Refused>)> {
    let (send, requests) = mpsc::channel();
    thread::spawn(move || {
        for mut request in server.incoming_requests() {
            let send = send.clone();
            thread::spawn(move || {
                let body = body(&mut request);
                // Where nothing is answered any more the program ends.
                let _ = send.send((request, body));
            });
        }
    });
    requests
}

fn respond(request: Request, status: u16, value: &Value) {
    let response = Response::from_string(value.to_string()).with_status_code(status);
    let response = match Header::from_bytes("Content-Type", "application/json") {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    };
    // On a thread of its own: one who does not read holds up no other. Where the reader is gone nothing is to be done.
    thread::spawn(move || drop(request.respond(response)));
}

/// What a request is answered with; a stream is generated while it is sent.
fn route(session: &mut Session, name: &str, request: &Request, body: &[u8]) -> Result<Answer, Refused> {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    match (request.method(), path.as_str()) {
        (Method::Get, "/health") => Ok(Answer::Whole(json!({ "status": "ok" }))),
        (Method::Get, "/v1/models") => {
            let model = json!({ "id": name, "object": "model", "created": 0, "owned_by": "wgoose" });
            Ok(Answer::Whole(json!({ "object": "list", "data": [model] })))
        }
        (Method::Post, "/v1/completions") => {
            let asked: Completion = read(body)?;
            let prompt = asked.prompt.tokens(session)?;
            Answer::generate(session, Heading::new(Kind::Text, name), prompt, asked.options.checked(16)?)
        }
        (Method::Post, "/v1/chat/completions") => {
            let asked: Chat = read(body)?;
            let prompt = tokens(session, &asked.text()?)?;
            Answer::generate(session, Heading::new(Kind::Chat, name), prompt, asked.checked()?)
        }
        (Method::Post, "/v1/embeddings") => embed(session, name, &read(body)?),
        (_, "/health" | "/v1/models" | "/v1/completions" | "/v1/chat/completions" | "/v1/embeddings") => {
            Err(Refused { status: 405, why: format!("{} is not for {path}", request.method()) })
        }
        _ => Err(Refused { status: 404, why: format!("there is no {path}") }),
    }
}

fn body(request: &mut Request) -> Result<Vec<u8>, Refused> {
    let mut text = Vec::new();
    request.as_reader().take(LONGEST + 1).read_to_end(&mut text).map_err(|e| Refused::wrong(e.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(Refused { status: 413, why: format!("a request has {} MiB at most", LONGEST >> 20) });
    }
    Ok(text)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|e| Refused::wrong(e.to_string()))
}

fn tokens(session: &Session, text: &str) -> Result<Vec<u32>, Refused> {
    Ok(session.tokenizer()?.encode(text.as_bytes()))
}

fn embed(session: &mut Session, name: &str, asked: &Embeddings) -> Result<Answer, Refused> {
    let texts: Vec<Vec<u32>> = asked.input.texts().map(|text| tokens(session, text)).collect::<Result<_, _>>()?;
    if texts.is_empty() || texts.iter().any(Vec::is_empty) {
        return Err(Refused::wrong("input: there is nothing to embed".to_owned()));
    }
    let usual = EmbedOptions::of(session.model());
    let options = EmbedOptions { pooling: asked.head()?.map_or(usual.pooling, Pooling::Head), ..usual };
    let embedded = session.embed_batch(&texts, &options, &CancelToken::default())?;
    let of = |(index, embedding)| json!({ "object": "embedding", "index": index, "embedding": embedding });
    let data: Vec<Value> = embedded.into_iter().enumerate().map(of).collect();
    let read: usize = texts.iter().map(Vec::len).sum();
    let usage = json!({ "prompt_tokens": read, "total_tokens": read });
    Ok(Answer::Whole(json!({ "object": "list", "data": data, "model": name, "usage": usage })))
}

impl From<wgoose_session::SessionError> for Refused {
    fn from(error: wgoose_session::SessionError) -> Self {
        use wgoose_session::SessionError::{EmptyPrompt, NoEmbeddingHead, Runtime, SamplerOptions};
        let status = match error {
            EmptyPrompt | SamplerOptions(_) | NoEmbeddingHead { .. } => 400,
            Runtime(RuntimeError::Batch(BatchError::NoOutputHead)) => 400,
            _ => 500,
        };
        Refused { status, why: one_line(&error) }
    }
}
