//! `wgoose logits`

use crate::options::RunOptions;
use crate::trace::TraceOptions;
use crate::{Failure, npy};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;
use wgoose_session::state_file;

/// Write the logits after every token, and the final state, so that anyone can check this engine against another.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// JSON file with a list of token ids.
    #[arg(long)]
    tokens: PathBuf,
    /// Where the logits go: .npy, float32, [tokens, vocabulary].
    #[arg(long)]
    out: PathBuf,
    /// Where the final state goes: safetensors, blocks.i.{wkv [H, value, key], att_shift [C], ffn_shift [C]}.
    #[arg(long)]
    state_out: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceOptions,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let tokens = crate::options::tokens(&args.tokens)?;
    // Before the long part: is there a place for the result?
    let folder = args.out.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|f| !f.is_dir()) {
        return Err(format!("{}: there is no folder {}", args.out.display(), folder.display()).into());
    }
    let timeline = args.trace.timeline();
    let mut session = args.options.session().timeline(timeline.clone()).open(&args.model)?;
    let vocab = session.model().shape().vocab as usize;
    let logits = session.logits(&tokens)?;
    let fail = |e: std::io::Error| format!("{}: {e}", args.out.display());
    let mut out = BufWriter::new(File::create(&args.out).map_err(fail)?);
    npy::write(&mut out, &[tokens.len(), vocab], &logits).and_then(|()| out.flush()).map_err(fail)?;
    if let Some(path) = &args.state_out {
        let state = session.state()?;
        state_file::save(path, &state, session.model().shape(), &session.model().fingerprint().to_string())?;
    }
    outln!("{}: logits [{}, {vocab}]", args.out.display(), tokens.len());
    args.trace.write(&timeline, started)
}
