//! `wgoose convert`

use crate::failure::Failure;
use crate::options::place;
use crate::written::{bar, container, show, world_vocabulary};
use std::path::PathBuf;
use wgoose_loader::convert::{ConvertOptions, convert, kept_mix};
use wgoose_loader::writer::{Mix, Setting};
use wgoose_loader::{Container, Model};

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
    let container = container(&args.out)?;
    let model = Model::open_source(&args.model)?;
    let mix = args.to.unwrap_or_else(|| kept_mix(&model));
    let name = args.model.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let lacks_tokens = container == Container::Gguf && model.vocabulary().is_none();
    let options = ConvertOptions {
        container,
        mix,
        name,
        vocabulary: if lacks_tokens { world_vocabulary(model.shape().vocab) } else { None },
        set: args.set.clone(),
        replace: args.force,
        check: args.check,
    };
    let bar = bar()?;
    let converted = convert(&model, &options, &args.out, &show(&bar))?;
    drop(bar);
    let written = converted.written;
    let (bytes, before) = (mib(written.bytes), mib(model.file_len() as u64));
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
