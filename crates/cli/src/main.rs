//! `wgoose`: RWKV-7 on any GPU, tuned. One file or folder per verb in `verbs/`.

#[macro_use]
mod out;
mod announce;
mod arguments;
mod cells;
mod failure;
mod findings;
mod first_use;
mod measuring;
mod mesa;
mod options;
mod plan_text;
mod progress;
mod sampling;
mod signals;
mod structure;
mod texts;
mod timeline;
mod tuning;
mod verbs;
mod wrapped;

use clap::{Command, CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use std::time::Instant;

/// Run, tune and check RWKV-7 language models on any GPU through WebGPU.
///
/// Exit codes: 0 done, 1 failed (one line on stderr says what and where), 2 wrong usage, 130 or 143 interrupted
/// by Ctrl-C or SIGTERM.
#[derive(Parser)]
#[command(version = version(), max_term_width = 100, after_help = "Examples:
  wgoose devices                               GPUs that can be used
  wgoose generate model.gguf -p \"The goose\"    continue a text
  wgoose chat model.gguf                       talk with a G1 model
  wgoose tune model.gguf                       find the fastest kernels for this GPU
  wgoose bench model.gguf                      tokens per second
  wgoose help plans                            what a plan is; also kernels, precision, memory")]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    Generate(verbs::generate::Args),
    Chat(verbs::chat::Args),
    Serve(verbs::serve::Args),
    Embed(verbs::embed::Args),
    Tune(verbs::tune::Args),
    Bench(verbs::bench::Args),
    Compare(verbs::compare::Args),
    Convert(verbs::convert::Args),
    Info(verbs::info::Args),
    Devices(verbs::devices::Args),
    Plans(verbs::plans::Args),
    Verify(verbs::verify::Args),
    Eval(verbs::eval::Args),
    Tokenize(verbs::tokenize::Args),
    Dev(verbs::dev::Args),
    Completions(verbs::completions::Args),
    Man(verbs::man::Args),
    #[command(hide = true)]
    ColdChild(verbs::bench::child::Args),
}

/// What a new user types next.
const GREETING: &str = "wgoose runs RWKV-7 language models on this machine's GPU.

  wgoose devices                                  GPUs that can be used
  wgoose chat model.gguf                          talk with a model
  wgoose generate model.gguf -p \"The goose\"       continue a text
  wgoose tune model.gguf                          make it faster on this GPU: five minutes, once

Models: https://huggingface.co/BlinkDL/rwkv7-g1 (.pth, safetensors and GGUF files run).
wgoose --help lists all verbs, wgoose help plans|kernels|precision|memory explains words.";

/// Version, commit and wgpu: what results and speed depend on.
fn version() -> String {
    let commit = match env!("WGOOSE_COMMIT") {
        "" => String::new(),
        commit => format!("commit {commit}, "),
    };
    format!("{} ({commit}wgpu {})", env!("CARGO_PKG_VERSION"), wgoose_runtime::WGPU_VERSION)
}

/// The command line, with help that tells each verb's own defaults.
fn command() -> Command {
    Cli::command()
        .mut_subcommand("generate", |verb| sampling::with_defaults(verb, &verbs::generate::defaults()))
        .mut_subcommand("chat", |verb| sampling::with_defaults(verb, &verbs::chat::defaults()))
}

fn say(text: &str) -> Result<(), failure::Failure> {
    outln!("{text}");
    Ok(())
}

fn main() -> ExitCode {
    let started = Instant::now();
    mesa::quieten();
    if let Some(text) = verbs::help::explanation(std::env::args_os()) {
        return failure::exit_code(say(text));
    }
    let Cli { verb: Some(verb) } = arguments::parse(command()) else {
        return failure::exit_code(say(GREETING));
    };
    tracing_subscriber::fmt()
        .with_writer(|| progress::Above)
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .without_time()
        .with_target(false)
        .init();
    failure::exit_code(signals::install().map_err(Into::into).and_then(|()| match verb {
        Verb::Generate(args) => verbs::generate::run(&args, started),
        Verb::Chat(args) => verbs::chat::run(&args, started),
        Verb::Serve(args) => verbs::serve::run(&args),
        Verb::Embed(args) => verbs::embed::run(&args),
        Verb::Tune(args) => verbs::tune::run(&args, started),
        Verb::Bench(args) => verbs::bench::run(&args),
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Convert(args) => verbs::convert::run(&args),
        Verb::Info(args) => verbs::info::run(&args),
        Verb::Devices(args) => verbs::devices::run(&args),
        Verb::Plans(args) => verbs::plans::run(&args),
        Verb::Verify(args) => verbs::verify::run(&args),
        Verb::Eval(args) => verbs::eval::run(&args),
        Verb::Tokenize(args) => verbs::tokenize::run(&args),
        Verb::Dev(args) => verbs::dev::run(&args, started),
        Verb::Completions(args) => verbs::completions::run(&args, &command()),
        Verb::Man(args) => verbs::man::run(&args, command()),
        Verb::ColdChild(args) => verbs::bench::child::run(&args, started),
    }))
}
