//! `wgoose dev synth`

use crate::failure::Failure;
use crate::progress::Moving;
use std::path::PathBuf;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::synth::Mix;
use wgoose_session::{SynthFileOptions, synth_file};

/// Write a model with random weights; the same options give the same bytes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose dev synth model.gguf --preset 0.1B --mix Q4_K_M
  wgoose dev synth tiny.gguf --layers 2 --width 128 --vocab 320")]
pub(crate) struct Args {
    /// Output file: .gguf, .st or .safetensors.
    out: PathBuf,
    /// A published size: 0.1B, 0.4B, 1.5B, 2.9B, 7.2B, 13.3B.
    #[arg(long, value_parser = preset, conflicts_with_all = ["layers", "width"])]
    preset: Option<ModelShape>,
    /// Number of layers, for a custom size.
    #[arg(long, required_unless_present = "preset")]
    layers: Option<u32>,
    /// Width of the residual stream.
    #[arg(long, required_unless_present = "preset")]
    width: Option<u32>,
    /// Width of the channel mix; default 4 x width.
    #[arg(long)]
    ffn: Option<u32>,
    /// Channels per head.
    #[arg(long)]
    head_size: Option<u32>,
    /// Vocabulary size.
    #[arg(long)]
    vocab: Option<u32>,
    /// Adapter ranks: decay,iclr,value,gate.
    #[arg(long, value_parser = ranks)]
    ranks: Option<LoraRanks>,
    /// Make an RWKV-7a model, with DeepEmbed's N x N matrix for each token; published models have 32.
    #[arg(long, value_name = "N")]
    deep_embed: Option<u32>,
    /// Formats: F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M, Q6_K.
    #[arg(long, default_value = "F16")]
    mix: Mix,
    /// Seed of the weights.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Scale weights so that relu^2 comes near the largest f16.
    #[arg(long)]
    hot: bool,
    /// Share of zeros in the activations that ffn.value reads, 0.5 to 0.99; trained models have about 0.88.
    #[arg(long, value_name = "SHARE")]
    ffn_zeros: Option<f32>,
}

fn preset(name: &str) -> Result<ModelShape, String> {
    let names = ModelShape::PRESETS.map(|(n, _)| n).join(", ");
    ModelShape::preset(name).ok_or_else(|| format!("expected one of {names}"))
}

fn ranks(text: &str) -> Result<LoraRanks, String> {
    let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[decay, iclr, value, gate]) => Ok(LoraRanks { decay, iclr, value, gate }),
        _ => Err("expected four numbers: decay,iclr,value,gate".into()),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let own = || ModelShape::small(args.layers.unwrap_or_default(), args.width.unwrap_or_default());
    let mut shape = args.preset.unwrap_or_else(own);
    shape.ffn = args.ffn.unwrap_or(shape.ffn);
    shape.head_size = args.head_size.unwrap_or(shape.head_size);
    shape.vocab = args.vocab.unwrap_or(shape.vocab);
    shape.ranks = args.ranks.unwrap_or(shape.ranks);
    shape.deep_embed = args.deep_embed;
    let options = SynthFileOptions { shape, mix: args.mix, seed: args.seed, hot: args.hot, ffn_zeros: args.ffn_zeros };
    let bar = Moving::bytes()?;
    let report = synth_file(&args.out, &options, &mut bar.progress())?;
    drop(bar);
    let (bytes, weights) = (report.bytes as f64 / f64::from(1 << 20), report.weights as f64 / 1e6);
    outln!(
        "{}: {bytes:.1} MiB, {weights:.1} M weights in {} tensors, {}",
        args.out.display(),
        report.tensors,
        args.mix
    );
    Ok(())
}
