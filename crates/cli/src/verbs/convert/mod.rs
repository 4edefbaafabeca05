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

/// Convert or quantise a model: to GGUF, which llama.cpp reads too, or to safetensors.
///
/// Also reads formats that no kernel runs: Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, IQ4_NL and IQ4_XS. GGUF to GGUF keeps all
/// metadata: vocabulary, author, licence. A .pth or .st with 65,536 tokens gets the World vocabulary, any other the one
/// of --vocab. Tensors are rounded to the new format; tensors that already have it are copied. The output file appears
/// only when it is complete.
///
/// --to auto chooses a format for each matrix: it measures how much each format changes the model's predictions, and
/// writes the best mix for your goal. It prefills the text once for each matrix and format; a first estimate of the
/// time is printed before it begins.
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
    /// Output file: .gguf, .st or .safetensors.
    #[arg(value_parser = place())]
    out: PathBuf,
    /// Format of the matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M, Q6_K, or auto, which chooses one for each
    /// matrix. Default: the precision of the source, F16 if the source is quantised.
    #[arg(long, value_name = "FORMATS")]
    to: Option<To>,
    /// Set a metadata key of a GGUF file: as text, or in the type that the key has in the source. Repeatable. ggml's
    /// docs/gguf.md explains the `general.` keys.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Setting>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Read the new file back and compare every tensor with the source, before the file appears.
    #[arg(long)]
    check: bool,
    /// Refuse to write if rounding changes any tensor by more than this share of its rms.
    #[arg(long, value_name = "SHARE", default_value_t = MOST_ROUNDING)]
    most_rounding: f64,
    /// Afterwards, run the new file and its source on this text, and print both perplexities and their KL divergence.
    /// --limit sets the number of tokens (1024).
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
