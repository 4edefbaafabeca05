//! Small synthetic models, as files.

use crate::support::{Tensor, pth, transpose};
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wgoose_graph::{Format, LoraRanks, ModelShape};
use wgoose_loader::convert::{self, ConvertOptions, MOST_ROUNDING};
use wgoose_loader::synth::{self, Mix, SynthOptions, unwatched};
use wgoose_loader::{Container, Model};

/// Small, and with a vocabulary of more numbers than are decoded at once.
pub(crate) const SMALL: ModelShape = ModelShape {
    layers: 2,
    width: 256,
    ffn: 512,
    head_size: 64,
    vocab: 1000,
    ranks: LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// Writes a model into a folder.
pub(crate) fn synthetic(folder: &TempDir, shape: ModelShape, container: Container, mix: Mix) -> PathBuf {
    let path = folder.path().join(format!("{container}-{mix}"));
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    synth::write(&options, &path, &mut unwatched).unwrap();
    path
}

/// The same weights in F16 under web-rwkv's names, for its own reader; quantised ones are dequantised.
pub(crate) fn own_file(path: &Path) -> Vec<u8> {
    let options = ConvertOptions {
        container: Container::Safetensors,
        mix: Mix::F16,
        chosen: None,
        name: String::new(),
        vocabulary: None,
        set: Vec::new(),
        replace: false,
        check: false,
        most_rounding: MOST_ROUNDING,
    };
    let own = path.with_extension("st");
    convert::convert(&Model::open(path).unwrap(), &options, &own, &mut unwatched).unwrap();
    std::fs::read(own).unwrap()
}

/// The tensors of a file of web-rwkv's as a `.pth`, whose adapters are the other way around.
pub(crate) fn pth(own: &[u8]) -> Vec<u8> {
    let file = SafeTensors::deserialize(own).unwrap();
    let tensors: Vec<Tensor> =
        file.iter().map(|(name, tensor)| checkpoint_tensor(name, tensor.shape(), tensor.data())).collect();
    pth::write(&tensors, pth::Style::Plain)
}

fn checkpoint_tensor(name: &str, shape: &[usize], bytes: &[u8]) -> Tensor {
    let halves = bytes.as_chunks().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes));
    let numbers: Vec<f32> = halves.map(f32::from).collect();
    let is_adapter = name.ends_with(['1', '2']);
    match *shape {
        [rows, cols] if is_adapter => Tensor::new(name, Format::F16, &[cols, rows], &transpose(&numbers, cols)),
        _ => Tensor::new(name, Format::F16, shape, &numbers),
    }
}
