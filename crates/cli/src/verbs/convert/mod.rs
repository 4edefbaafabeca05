//! `wgoose convert`

mod auto;
mod measure;
mod table;

use crate::failure::Failure;
use crate::options::place;
use crate::progress::Moving;
use auto::{AutoOptions, To};
use measure::{line, measure};
use std::path::PathBuf;
use table::table;
use wgoose_loader::convert::{MOST_ROUNDING, Rounding};
use wgoose_loader::writer::Setting;
use wgoose_session::bit_allocation::Allocation;
use wgoose_session::{ConvertFileOptions, ConvertedFile, convert_file};

/// Write a model as GGUF, for llama.cpp too, or as safetensors, in other formats if you like.
///
/// Formats that no kernel here reads are read too: Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, IQ4_NL and IQ4_XS. A GGUF file keeps
/// what a GGUF file says of itself, vocabulary, author and licence with it; one made of a .pth or .st of 65,536 tokens
/// gets the World vocabulary, others what --vocab says. Numbers are rounded to the new format, nothing else; what has
/// it already is copied. The file appears when it is complete.
///
/// --to auto runs the model: every matrix is measured in every format by what it changes of the model's predictions, and the
/// best mix for your goal is written. This takes as many readings of the text as there are matrices and formats.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose convert model.pth model.gguf --to Q4_K_M --check
  wgoose convert model.pth model.gguf --to Q4_K_M --measure text.txt
  wgoose convert model.gguf model.st
  wgoose convert model.pth merged.gguf --adapter lora.pth:2
  wgoose convert model-Q5_1.gguf model.gguf --to Q5_K_M
  wgoose convert model.gguf small.gguf --to auto --budget-bytes 400MiB --text text.txt
  wgoose convert model.gguf close.gguf --to auto --target-kl 0.005 --text text.txt
  wgoose convert model.pth model.gguf --set general.license=Apache-2.0 --set general.author=BlinkDL")]
pub(crate) struct Args {
    /// Model file: .pth, .st, .safetensors or .gguf, or a folder with the shards of one.
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// File to write: .gguf, or .st / .safetensors.
    #[arg(value_parser = place())]
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
    /// Most that rounding may change a tensor, as a share of its size (rms); a file that needs more is refused.
    #[arg(long, value_name = "SHARE", default_value_t = MOST_ROUNDING)]
    most_rounding: f64,
    /// Then run the new file and its source on this text, and print both perplexities and the KL divergence between
    /// them. --limit says on how many tokens, 1024 without it.
    #[arg(long, value_name = "FILE")]
    measure: Option<PathBuf>,
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
        most_rounding: Some(args.most_rounding),
        ignore_unknown: args.auto.ignore_unknown(),
        vocabulary: args.auto.vocabulary(),
        adapter: args.auto.adapter(),
    };
    let allocation = args.auto.allocation(args.to, &args.model, &args.out, &options, args.measure.is_some())?;
    if let Some(Allocation { mix, chosen, .. }) = &allocation {
        (options.to, options.chosen) = (Some(*mix), Some(chosen.clone()));
    }
    if let Some(text) = &args.measure {
        // Before the file is written: the text, and formats that only a conversion reads.
        wgoose_files::open_text(text).map_err(|e| format!("{}: {e}", text.display()))?;
        args.auto.run().session()?.open_file(&args.model)?;
    }
    let bar = Moving::bytes()?;
    let file = convert_file(&args.model, &args.out, &options, &mut bar.progress())?;
    drop(bar);
    let measured = match &args.measure {
        Some(text) => Some(measure(args.auto.run(), [&args.model, &args.out], text, args.auto.measured_tokens())?),
        None => None,
    };
    if args.json {
        let mut fields = file.json();
        if let Some(allocation) = &allocation {
            fields["allocation"] = allocation.json();
        }
        if let Some(measured) = &measured {
            fields["measured"] = measured.json();
        }
        outln!("{}", serde_json::to_string_pretty(&fields)?);
        return Ok(());
    }
    let ConvertedFile { source_bytes, converted, .. } = &file;
    if let Some(adapter) = &file.adapter {
        outln!("adapter: {}: {adapter}", adapter.path.display());
    }
    let written = converted.written;
    let (bytes, before, mix) = (mib(written.bytes), mib(*source_bytes), file.mix_name());
    outln!("{}: {bytes:.1} MiB ({before:.1} MiB before), {} tensors, {mix}", args.out.display(), written.tensors);
    if let Some(why) = &file.without_vocabulary {
        outln!("no vocabulary is written: {why}");
    }
    if let Some(weights) = converted.checked {
        outln!("checked: {weights} weights as written");
    }
    outln!("{}", rounding(converted.rounding));
    if let Some(measured) = &measured {
        outln!("{}", line(measured));
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
fn rounding(Rounding { error, worst }: Rounding) -> String {
    match error {
        0.0 => "no number has changed".to_owned(),
        _ => format!("rounding has changed none by more than {error:.1e} of its size (rms; {worst})"),
    }
}
