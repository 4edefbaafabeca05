//! `wgoose dev`: for people who write kernels, measure closely, or look inside.

mod experiment;
mod graph;
mod kernel;
mod logits;
mod mcp;
mod profile;
mod roofline;
mod synth;
mod trace;
pub(crate) mod trial;

use crate::failure::Failure;
use clap::Subcommand;
use std::time::Instant;

/// Tools for kernel developers: test and time kernels, run experiments, profile, trace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose dev kernel                           every op with its variants
  wgoose dev kernel lerp --kernels mine       test and time kernels of a folder
  wgoose dev profile model.gguf               the time of each op of a step
  wgoose dev graph model.gguf                 the forward pass")]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    Kernel(kernel::Args),
    Mcp(mcp::Args),
    Experiment(experiment::Args),
    Profile(profile::Args),
    Roofline(roofline::Args),
    Graph(graph::Args),
    Trace(trace::Args),
    Logits(logits::Args),
    Synth(synth::Args),
    #[command(hide = true)]
    Trial(trial::Args),
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    match &args.tool {
        Tool::Kernel(args) => kernel::run(args),
        Tool::Mcp(args) => mcp::run(args),
        Tool::Experiment(args) => experiment::run(args),
        Tool::Profile(args) => profile::run(args),
        Tool::Roofline(args) => roofline::run(args),
        Tool::Graph(args) => graph::run(args),
        Tool::Trace(args) => trace::run(args),
        Tool::Logits(args) => logits::run(args, started),
        Tool::Synth(args) => synth::run(args),
        Tool::Trial(args) => trial::run(args, started),
    }
}
