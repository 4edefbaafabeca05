//! `wgoose serve`: a model behind the HTTP interface that programs for OpenAI's speak.

use crate::failure::{Failure, WrongUsage};
use crate::options::RunOptions;
use crate::progress::Moving;
use crate::signals::OnSignal;
use bytesize::ByteSize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wgoose_serve::{ServeOptions, Server};
use wgoose_session::PrefixOptions;

/// Serve an OpenAI-compatible HTTP API: completions, chats and embeddings, with streaming.
///
/// Continuous batching: sequences join and leave the batch at every step, and long prompts are prefilled in chunks
/// beside decode. A prefix cache keeps the state of each chat, so that the next turn prefills only the new text. Chats
/// use the template of the RWKV-7 G1 models. Embedding models (EmbeddingRWKV) use their retrieval head, or the head
/// that a request names: "head": "sts", or "model": "NAME:sts". Unknown and unsupported fields, such as
/// suffix, are refused by name. /metrics has metrics for Prometheus. After Ctrl-C or SIGTERM the server ends when
/// running requests have ended.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose serve model.gguf
  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Honk?\"}]}'")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Address to listen on. Nothing is encrypted: beyond this machine, put a proxy with TLS in front.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Chat template: a file in Jinja, or `rwkv` for that of the RWKV-7 G1 models. Default: that of the model file,
    /// else `rwkv`
    #[arg(long, value_name = "FILE|rwkv")]
    chat_template: Option<PathBuf>,
    /// Most sequences in a batch
    #[arg(long, value_name = "N", default_value_t = 32)]
    parallel: usize,
    /// Most queued sequences; beyond that, requests get status 429
    #[arg(long, value_name = "N", default_value_t = 256)]
    queue: usize,
    /// API key: requests need "Authorization: Bearer KEY". Repeat it for several keys; WGOOSE_API_KEY adds one. Without
    /// keys, anyone who reaches the address can use the model.
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// Origin of web pages that may send requests (scheme, name and port), or * for all. Repeat it for several.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Accepted name in the Host header, beside localhost, or * for all. Repeat it for several.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Most open connections
    #[arg(long, value_name = "N", default_value_t = 512)]
    connections: usize,
    /// Folder for states and conversations (/v1/states, state_id, session_id); a restarted server finds them again
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Most bytes of this folder; the least recently used conversations are deleted first
    #[arg(long, value_name = "BYTES", default_value = "16GiB", requires = "state_dir")]
    #[arg(value_parser = crate::options::size)]
    state_bytes: ByteSize,
    /// Append one line of JSON for each request to this file, or - for standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Largest max_tokens of a request
    #[arg(long, value_name = "N", default_value_t = 32_768)]
    max_tokens: usize,
    /// Most tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    max_prompt: usize,
    /// Seconds for running requests to end after Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
    #[command(flatten)]
    options: RunOptions,
}

/// The template in a file, or the name of one.
fn template(named: &Path) -> Result<String, Failure> {
    match named.to_str() {
        Some("rwkv") => Ok("rwkv".to_owned()),
        _ => std::fs::read_to_string(named)
            .map_err(|why| WrongUsage(format!("--chat-template {}: {why}", named.display())).into()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut api_keys = args.api_key.clone();
    api_keys.extend(std::env::var("WGOOSE_API_KEY").ok().filter(|key| !key.is_empty()));
    let chat_template = args.chat_template.as_deref().map(template).transpose()?;
    let options = ServeOptions {
        chat_template,
        host: args.host.clone(),
        port: args.port,
        parallel: args.parallel,
        queue: args.queue,
        api_keys,
        cors: args.cors.clone(),
        allowed_hosts: args.allow_host.clone(),
        connections: args.connections,
        state_folder: args.state_dir.clone(),
        state_bytes: args.state_bytes.0,
        access_log: args.access_log.clone(),
        max_tokens: args.max_tokens,
        max_prompt: args.max_prompt,
        grace: Duration::from_secs(args.grace),
        ..ServeOptions::default()
    };
    // The error of a used address comes before the model is opened.
    let mut server = Server::bind(options)?;
    let moving = Moving::spinner("opening the model and the device")?;
    let session = args.options.session()?.prefix_cache(Some(PrefixOptions::default())).open(&args.model)?;
    drop(moving);
    let address = server.address()?;
    server.set_model(session.model().title());
    let stopper = server.stopper();
    let _ending = OnSignal::call(move |_| match stopper.stop() {
        true => {
            eprintln!("waiting for running requests to end; a second Ctrl-C cuts them");
            ControlFlow::Continue(())
        }
        false => ControlFlow::Break(()),
    });
    server.run(session, |sequences| {
        let page = format!("chat page at http://{address}");
        eprintln!("listening at http://{address}/v1, {page}, batch size up to {sequences}; Ctrl-C ends it");
    })?;
    Ok(())
}
