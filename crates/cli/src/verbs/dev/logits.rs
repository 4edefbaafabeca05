//! `wgoose dev logits`

use crate::failure::Failure;
use crate::options::{RunOptions, place};
use crate::progress::Moving;
use crate::timeline::TimelineOptions;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_runtime::{RuntimeError, check_tokens};
use wgoose_session::{npy, state_file};

/// Write the logits after every token, and the final state, to compare this engine with another.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose tokenize \"a goose\" > ids.json
  wgoose dev logits model.gguf --tokens ids.json --out logits.npy --state-out state.st")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// JSON file with a list of token ids.
    #[arg(long)]
    tokens: PathBuf,
    /// Output file of the logits: .npy, float32, [tokens, vocabulary].
    #[arg(long, value_parser = place())]
    out: PathBuf,
    /// Output file of the final state: safetensors with blocks.i.wkv (H x value x key), blocks.i.att_shift (C) and
    /// blocks.i.ffn_shift (C).
    #[arg(long, value_parser = place())]
    state_out: Option<PathBuf>,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let tokens = crate::options::tokens(&args.tokens)?;
    let timeline = args.timeline.begin();
    let mut session = args.options.session()?.timeline(timeline.clone()).open(&args.model)?;
    let vocab = session.model().shape().vocab as usize;
    check_tokens(0, &tokens, vocab as u32).map_err(RuntimeError::from)?;
    // Those of all tokens may be more than there is memory.
    let mut rows = npy::Rows::begin(&args.out, &[tokens.len(), vocab])?;
    let (bar, mut done) = (Moving::bar(tokens.len() as u64, "{pos}/{len} tokens {elapsed} (left: {left})")?, 0);
    for pass in tokens.chunks(session.chunk()) {
        rows.write(&session.logits(pass)?)?;
        done += pass.len() as u64;
        bar.done(done);
    }
    drop(bar);
    rows.finish()?;
    if let Some(path) = &args.state_out {
        let state = session.state()?;
        state_file::save(path, &state, session.model().shape(), &session.model().fingerprint().to_string())?;
    }
    outln!("{}: logits [{}, {vocab}]", args.out.display(), tokens.len());
    args.timeline.write(&timeline, started)
}
