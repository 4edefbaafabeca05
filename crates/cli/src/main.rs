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
mod texts;
mod timeline;
mod tuning;
mod verbs;
mod wrapped;

use clap::{Command, CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use std::time::Instant;

/// RWKV-7 on any GPU through WebGPU: run it, tune it, check it.
///
/// Exit codes: 0 done, 1 failed (one line on stderr says what and where), 2 wrong usage, 130 or 143 interrupted
/// by Ctrl-C or SIGTERM.
#[derive(Parser)]
#[command(version = version(), max_term_width = 100, after_help = "Examples:
  wgoose devices                              GPUs that can be used
  wgoose info model.gguf                      what is in a file
  wgoose tune model.gguf                      find the fastest kernels for this GPU
  wgoose generate model.gguf -p \"The goose\"    continue a text
  wgoose chat model.gguf                      talk with a G1 model
  wgoose bench model.gguf                     tokens a second")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Devices(verbs::devices::Args),
    Info(verbs::info::Args),
    Graph(verbs::graph::Args),
    Synth(verbs::synth::Args),
    Convert(verbs::convert::Args),
    Kernel(verbs::kernel::Args),
    Tune(verbs::tune::Args),
    Plan(verbs::plan::Args),
    Plans(verbs::plans::Args),
    Report(verbs::report::Args),
    Verify(verbs::verify::Args),
    Bench(verbs::bench::Args),
    Compare(verbs::compare::Args),
    Experiment(verbs::experiment::Args),
    Eval(verbs::eval::Args),
    Roofline(verbs::roofline::Args),
    Profile(verbs::profile::Args),
    Generate(verbs::generate::Args),
    Chat(verbs::chat::Args),
    Serve(verbs::serve::Args),
    Embed(verbs::embed::Args),
    Logits(verbs::logits::Args),
    Trace(verbs::trace::Args),
    Tokenize(verbs::tokenize::Args),
    Completions(verbs::completions::Args),
    Man(verbs::man::Args),
    #[command(hide = true)]
    ColdChild(verbs::bench::child::Args),
    #[command(hide = true)]
    Trial(verbs::trial::Args),
}

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

fn main() -> ExitCode {
    let started = Instant::now();
    mesa::quieten();
    let cli: Cli = arguments::parse(command());
    tracing_subscriber::fmt()
        .with_writer(|| progress::Above)
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .without_time()
        .with_target(false)
        .init();
    failure::exit_code(signals::install().map_err(Into::into).and_then(|()| match cli.verb {
        Verb::Devices(args) => verbs::devices::run(&args),
        Verb::Info(args) => verbs::info::run(&args),
        Verb::Graph(args) => verbs::graph::run(&args),
        Verb::Synth(args) => verbs::synth::run(&args),
        Verb::Convert(args) => verbs::convert::run(&args),
        Verb::Kernel(args) => verbs::kernel::run(&args),
        Verb::Tune(args) => verbs::tune::run(&args, started),
        Verb::Plan(args) => verbs::plan::run(&args),
        Verb::Plans(args) => verbs::plans::run(&args),
        Verb::Report(args) => verbs::report::run(&args),
        Verb::Verify(args) => verbs::verify::run(&args),
        Verb::Bench(args) => verbs::bench::run(&args),
        Verb::Compare(args) => verbs::compare::run(&args),
        Verb::Experiment(args) => verbs::experiment::run(&args),
        Verb::Eval(args) => verbs::eval::run(&args),
        Verb::Roofline(args) => verbs::roofline::run(&args),
        Verb::Profile(args) => verbs::profile::run(&args),
        Verb::Generate(args) => verbs::generate::run(&args, started),
        Verb::Chat(args) => verbs::chat::run(&args, started),
        Verb::Serve(args) => verbs::serve::run(&args),
        Verb::Embed(args) => verbs::embed::run(&args),
        Verb::Logits(args) => verbs::logits::run(&args, started),
        Verb::Trace(args) => verbs::trace::run(&args),
        Verb::Tokenize(args) => verbs::tokenize::run(&args),
        Verb::Completions(args) => verbs::completions::run(&args, &command()),
        Verb::Man(args) => verbs::man::run(&args, command()),
        Verb::ColdChild(args) => verbs::bench::child::run(&args, started),
        Verb::Trial(args) => verbs::trial::run(&args, started),
    }))
}
