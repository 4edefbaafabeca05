//! `wgoose dev trace`

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use wgoose_runtime::Comparison;
use wgoose_session::TraceError;

/// Dump the output of every op, or find the first op that is wrong on this GPU.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["out", "first_divergence"]).required(true).multiple(true))]
#[command(after_help = "Examples:
  wgoose dev trace model.gguf --tokens ids.json --first-divergence
  wgoose dev trace model.gguf --tokens ids.json --out ops --only att.key")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// JSON file with a list of token ids.
    #[arg(long)]
    tokens: PathBuf,
    /// Write each op's output into this folder: pass-P/NNN-blocks.L.NAME.npy, float32, [rows, columns] or
    /// [planes, rows, columns].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write only outputs with this name, such as att.key. Repeatable.
    #[arg(long, value_name = "NAME", requires = "out")]
    only: Vec<String>,
    /// Compare each op with its CPU reference on the same operands, and fail at the first error beyond its tolerance.
    /// --chunk 1 checks the decode kernels.
    #[arg(long)]
    first_divergence: bool,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let tokens = crate::options::tokens(&args.tokens)?;
    if let Some(folder) = &args.out {
        dump(args, &tokens, folder)?;
    }
    if args.first_divergence { compare(args, &tokens) } else { Ok(()) }
}

/// Writes what the ops make.
fn dump(args: &Args, tokens: &[u32], folder: &Path) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let mut session = args.options.session()?.open(&args.model)?;
    let mut written = 0;
    session.trace_selected(tokens, &args.only, &mut |op| {
        moving.say(&format!("pass {}, op {}: {}", op.value.pass, op.number, op.value.name));
        if op.is_selected {
            op.save(folder)?;
            written += 1;
        }
        Ok::<(), TraceError>(())
    })?;
    drop(moving);
    outln!("{}: {written} outputs", folder.display());
    Ok(())
}

/// Holds every op against its reference.
fn compare(args: &Args, tokens: &[u32]) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let mut executor = args.options.executor(&args.model, 1)?;
    let Comparison { ops, nearest, divergence } = executor.compare_text(tokens, &mut |read| {
        moving.say(&format!("comparing every op with its reference, tokens {read} of {}", tokens.len()));
        ControlFlow::Continue(())
    })?;
    drop(moving);
    if let Some(divergence) = divergence {
        return Err(divergence.to_string().into());
    }
    outln!("{ops} ops are within their tolerances");
    if let Some(nearest) = nearest {
        outln!("nearest to its own: {nearest}");
    }
    Ok(())
}
