//! `wgoose convert`

mod auto;
mod table;

use crate::failure::Failure;
use crate::options::place;
use crate::progress::Moving;
use auto::{AutoOptions, To};
use std::path::PathBuf;
use table::table;
use wgoose_loader::writer::Setting;
use wgoose_session::bit_allocation::Allocation;
use wgoose_session::{ConvertFileOptions, ConvertedFile, convert_file};

/// Write a model as GGUF, for llama.cpp too, or as safetensors, in other formats if you like.
///
/// Formats that no kernel here reads are read too: Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, IQ4_NL and IQ4_XS. A GGUF file keeps
/// what a GGUF file says of itself, vocabulary, author and licence with it; one made of a .pth or .st gets the World
/// vocabulary. Numbers are rounded to the new format, nothing else; what has it already is copied. The file appears
/// when it is complete.
///
/// --to auto runs the model: every matrix is measured in every format by what it changes of the model's predictions, and the
/// best mix for your goal is written. This takes as many readings of the text as there are matrices and formats.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose convert model.pth model.gguf --to Q4_K_M --check
  wgoose convert model.gguf model.st
  wgoose convert model-Q5_1.gguf model.gguf --to Q5_K_M
  wgoose convert model.gguf small.gguf --to auto --budget-bytes 400MiB --text text.txt
  wgoose convert model.gguf close.gguf --to auto --target-kl 0.005 --text text.txt
  wgoose convert model.pth model.gguf --set general.license=Apache-2.0 --set general.author=BlinkDL")]
pub(crate) struct Args {
    /// Model file: .pth, .st, .safetensors or .gguf.
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// File to write: .gguf, or .st / .safetensors.
    #[arg(value_parser = place)]
    out: PathBuf,
    /// Formats: F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M, Q6_K, or auto, one for each matrix; default: the precision of the
    /// source, F16 if it is quantised.
    #[arg(long, value_name = "FORMATS")]
    to: Option<To>,
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    auto: AutoOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut options = ConvertFileOptions {
        to: args.to.and_then(To::mix),
        chosen: None,
        set: args.set.clone(),
        replace: args.force,
        check: args.check,
        ignore_unknown: args.auto.ignore_unknown(),
    };
    let allocation = args.auto.allocation(args.to, &args.model, &args.out, &options)?;
    if let Some(Allocation { mix, chosen, .. }) = &allocation {
        (options.to, options.chosen) = (Some(*mix), Some(chosen.clone()));
    }
    let bar = Moving::bytes()?;
    let file = convert_file(&args.model, &args.out, &options, &mut bar.progress())?;
    drop(bar);
    if args.json {
        let mut fields = file.json();
        if let Some(allocation) = &allocation {
            fields["allocation"] = allocation.json();
        }
        outln!("{}", serde_json::to_string_pretty(&fields)?);
        return Ok(());
    }
    let ConvertedFile { source_bytes, converted, .. } = file;
    let written = converted.written;
    let (bytes, before, mix) = (mib(written.bytes), mib(source_bytes), file.mix_name());
    outln!("{}: {bytes:.1} MiB ({before:.1} MiB before), {} tensors, {mix}", args.out.display(), written.tensors);
    if let Some(checked) = converted.checked {
        outln!("checked: {} weights as written; {}", checked.weights, rounding(checked.rounding, checked.worst));
    }
    if let Some(allocation) = &allocation {
        out!("\n{}", table(allocation));
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
