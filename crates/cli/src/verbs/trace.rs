//! `wgoose trace`

use crate::failure::Failure;
use crate::npy;
use crate::options::RunOptions;
use crate::progress::Moving;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wgoose_runtime::{Batch, Executor, OpError, Outputs, Sequence, Traced};

/// Show what every op of the model makes, and the first that goes wrong on this GPU.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["out", "first_divergence"]).required(true).multiple(true))]
#[command(after_help = "Examples:
  wgoose trace model.gguf --tokens ids.json --first-divergence
  wgoose trace model.gguf --tokens ids.json --out ops --only att.key")]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// JSON file with a list of token ids.
    #[arg(long)]
    tokens: PathBuf,
    /// Write each op's output into this folder: pass-P/NNN-blocks.L.NAME.npy, float32, [rows, columns] or
    /// [planes, rows, columns].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write only the outputs of this name, such as att.key; may be given several times.
    #[arg(long, value_name = "NAME", requires = "out")]
    only: Vec<String>,
    /// Hold each op against its CPU reference on the same operands, and fail with the first whose error exceeds its
    /// tolerance. --chunk 1 does so for the kernels of decoding.
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
    let (mut written, mut names, mut number) = (0, BTreeSet::new(), (0, 0));
    let mut outcome = Ok(());
    session.trace(tokens, &mut |value| {
        number = if number.0 == value.pass { (value.pass, number.1 + 1) } else { (value.pass, 1) };
        names.insert(value.name.to_owned());
        moving.say(&format!("pass {}, op {}: {}", number.0, number.1, value.name));
        let wanted = args.only.is_empty() || args.only.iter().any(|name| name == value.name);
        if wanted && outcome.is_ok() {
            outcome = save(folder, number.1, value);
            written += 1;
        }
    })?;
    drop(moving);
    outcome?;
    if let Some(unknown) = args.only.iter().find(|name| !names.contains(*name)) {
        let names: Vec<String> = names.into_iter().collect();
        return Err(
            format!("--only {unknown}: no op has that name under this plan; there are {}", names.join(", ")).into()
        );
    }
    outln!("{}: {written} outputs", folder.display());
    Ok(())
}

fn save(folder: &Path, number: usize, value: &Traced<'_>) -> Result<(), String> {
    let folder = folder.join(format!("pass-{}", value.pass));
    let layer = value.layer.map(|layer| format!("blocks.{layer}.")).unwrap_or_default();
    let path = folder.join(format!("{number:03}-{layer}{}.npy", value.name));
    let shape = if value.shape[0] == 1 { &value.shape[1..] } else { &value.shape[..] };
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    npy::save(&path, shape, value.values)
}

/// Holds every op against its reference.
fn compare(args: &Args, tokens: &[u32]) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let mut executor = args.options.executor(&args.model, 1)?;
    let (vocab, chunk) = (executor.shape().vocab, executor.plan().prefill_chunk.max(1) as usize);
    let (mut ops, mut worst): (usize, Option<OpError>) = (0, None);
    let used = |e: &OpError| e.error / e.tolerance;
    for (pass, piece) in tokens.chunks(chunk).enumerate() {
        moving.say(&format!("comparing every op with its reference, tokens {} of {}", pass * chunk, tokens.len()));
        let batch = Batch::pack(&[Sequence { slot: 0, tokens: piece, outputs: Outputs::All }], vocab, 1)?;
        for error in executor.compare(&batch)? {
            if !error.passed() {
                let (first, last) = (pass * chunk, pass * chunk + piece.len() - 1);
                return Err(format!("pass {pass} (tokens {first} to {last}): {error}").into());
            }
            ops += 1;
            if worst.as_ref().is_none_or(|worst| used(&error) > used(worst)) {
                worst = Some(error);
            }
        }
    }
    drop(moving);
    outln!("{ops} ops are within their tolerances");
    if let Some(worst) = worst {
        outln!("nearest to its own: {worst}");
    }
    Ok(())
}
