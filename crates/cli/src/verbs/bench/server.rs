//! `wgoose bench server URL`: the throughput and latency of a server under load.

use crate::failure::Failure;
use crate::progress::Moving;
use wgoose_bench::server_load::{ServerLoad, ServerReport, ServerUrl};
use wgoose_session::printable;

/// Measure an HTTP server under load: throughput, time to first token, time between tokens.
///
/// Clients send completions in a closed loop and stream the answers. Every prompt is different. It works with any
/// server that has OpenAI's /v1/completions, such as `wgoose serve` and llama.cpp's llama-server.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose bench server http://127.0.0.1:8080
  wgoose bench server http://127.0.0.1:8080 --clients 1,8,32 --prompt-tokens 300 -n 128 --json")]
pub(super) struct Args {
    /// Address of the server.
    url: ServerUrl,
    /// Numbers of clients.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 32])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: Vec<u32>,
    /// Requests of each client.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Length of each prompt, in tokens.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    /// Tokens that each request decodes.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    decode_tokens: u32,
    /// API key.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Print one line of JSON for each number of clients.
    #[arg(long)]
    json: bool,
}

/// Requests that were not answered.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {of} requests failed: {why}")]
struct Unanswered {
    failed: usize,
    of: usize,
    why: String,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if !args.json {
        outln!(
            "{:>8}{:>12}{:>12}{:>12}{:>24}{:>28}",
            "",
            "",
            "",
            "",
            "time to first token, ms",
            "time between tokens, ms"
        );
        outln!(
            "{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>16}{:>12}",
            "clients",
            "tokens/s",
            "requests/s",
            "requests",
            "p50",
            "p95",
            "p50",
            "p95"
        );
    }
    let (mut failed, mut of, mut first) = (0, 0, None);
    for clients in &args.clients {
        let load = ServerLoad {
            url: args.url.clone(),
            api_key: args.api_key.clone(),
            clients: *clients as usize,
            requests: args.requests as usize,
            prompt_tokens: args.prompt_tokens as usize,
            decode_tokens: args.decode_tokens as usize,
        };
        let moving = Moving::spinner(&format!("{clients} clients"))?;
        let report = load.run()?;
        drop(moving);
        print(args, &report)?;
        failed += report.failures.len();
        of += report.failures.len() + report.completed;
        first = first.or(report.failures.into_iter().next());
    }
    match first {
        Some(why) => Err(Unanswered { failed, of, why: printable(&why) }.into()),
        None => Ok(()),
    }
}

fn print(args: &Args, report: &ServerReport) -> Result<(), Failure> {
    if args.json {
        outln!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let rate = report.completed as f64 / report.seconds.max(1e-9);
    let (first, between) = (&report.first_ms, &report.between_ms);
    outln!(
        "{:>8}{:>12.1}{rate:>12.2}{:>12}{:>12.1}{:>12.1}{:>16.1}{:>12.1}",
        report.clients,
        report.tokens_per_s,
        report.completed,
        first.p50,
        first.p95,
        between.p50,
        between.p95
    );
    Ok(())
}
