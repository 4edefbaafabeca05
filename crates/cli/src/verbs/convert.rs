//! `wgoose convert`

use crate::failure::Failure;
use crate::options::place;
use crate::progress::Moving;
use std::path::PathBuf;
use wgoose_loader::writer::{Mix, Setting};
use wgoose_session::{ConvertFileOptions, ConvertedFile, convert_file};

/// Write a model as GGUF, for llama.cpp too, or as safetensors, in other formats if you like.
///
/// Formats that no kernel here reads are read too: Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, IQ4_NL and IQ4_XS. A GGUF file keeps
/// what a GGUF file says of itself, vocabulary, author and licence with it; one made of a .pth or .st gets the World
/// vocabulary. Numbers are rounded to the new format, nothing else; what has it already is copied. The file appears
/// when it is complete.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose convert model.pth model.gguf --to Q4_K_M --check
  wgoose convert model.gguf model.st
  wgoose convert model-Q5_1.gguf model.gguf --to Q5_K_M
  wgoose convert model.pth model.gguf --set general.license=Apache-2.0 --set general.author=BlinkDL")]
pub(crate) struct Args {
    /// Model file: .pth, .st, .safetensors or .gguf.
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// File to write: .gguf, or .st / .safetensors.
    #[arg(value_parser = place)]
    out: PathBuf,
    /// Formats: F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M, Q6_K; default: the precision of the source, F16 if it is
    /// quantised.
    #[arg(long)]
    to: Option<Mix>,
    /// Metadata of a GGUF file, as often as you like: a text, or what the source has there in its type. What `general.`
    /// keys mean: ggml's docs/gguf.md.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,
    /// Replace a file of that name.
    #[arg(long)]
    force: bool,
    /// Read the file back and compare every tensor with the source before it appears.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let options = ConvertFileOptions { to: args.to, set: args.set.clone(), replace: args.force, check: args.check };
    let bar = Moving::bytes()?;
    let ConvertedFile { mix, source_bytes, converted } =
        convert_file(&args.model, &args.out, &options, &mut bar.progress())?;
    drop(bar);
    let written = converted.written;
    let (bytes, before) = (mib(written.bytes), mib(source_bytes));
    outln!("{}: {bytes:.1} MiB ({before:.1} MiB before), {} tensors, {mix}", args.out.display(), written.tensors);
    if let Some(checked) = converted.checked {
        outln!("checked: {} weights as written; {}", checked.weights, rounding(checked.rounding, checked.worst));
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What rounding has changed, in words.
fn rounding(error: f64, worst: wgoose_graph::Weight) -> String {
    match error {
        0.0 => "no number has changed".to_owned(),
        _ => format!("rounding has changed none by more than {error:.1e} of its size (rms; {worst})"),
    }
}
