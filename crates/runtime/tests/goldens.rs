//! The committed answers of the reference implementation (`oracle/README.md`), on the CPU and on the GPU.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_graph::{LayerWeight, LoraRanks, ModelShape, Weight};
use wgoose_kernels::{Plan, Sources};
use wgoose_loader::synth::{SynthOptions, write};
use wgoose_loader::{Container, Model};
use wgoose_runtime::{Device, Engine, Outputs, Sequence};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens")
}

/// What `oracle/golden.py` stored for one model.
struct Golden {
    name: String,
    blake3: String,
    /// Arguments of `wgoose synth`; none for the committed checkpoint.
    synth: Vec<String>,
    tokens: Vec<u32>,
    positions: Vec<usize>,
    /// At the positions, one row after the other.
    logits: Vec<f32>,
    /// Root mean squares of att_shift, wkv, ffn_shift of each layer.
    state_rms: Vec<f32>,
    /// Pieces of the last layer's state, in full.
    state: BTreeMap<String, Vec<f32>>,
}

fn goldens() -> Vec<Golden> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    paths.iter().map(|path| golden(path)).collect()
}

fn golden(path: &Path) -> Golden {
    let file = std::fs::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let metadata = header.metadata().clone().unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let words = |name: &str| -> Vec<[u8; 4]> {
        tensors.tensor(name).unwrap().data().chunks_exact(4).map(|word| word.try_into().unwrap()).collect()
    };
    let floats = |name: &str| words(name).into_iter().map(f32::from_le_bytes).collect::<Vec<f32>>();
    let indices = |name: &str| words(name).into_iter().map(u32::from_le_bytes).collect::<Vec<u32>>();
    let state = tensors.names().into_iter().filter(|name| name.starts_with("blocks."));
    Golden {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        blake3: metadata["blake3"].clone(),
        synth: serde_json::from_str(&metadata["synth"]).unwrap(),
        tokens: indices("tokens"),
        positions: indices("positions").into_iter().map(|p| p as usize).collect(),
        logits: floats("logits"),
        state_rms: floats("state_rms"),
        state: state.map(|name| (name.to_owned(), floats(name))).collect(),
    }
}

/// The options that `wgoose synth` reads from the stored arguments.
fn options(golden: &Golden) -> SynthOptions {
    let value = |name: &str| {
        let at = golden.synth.iter().position(|word| word == name).unwrap_or_else(|| panic!("{name} is missing"));
        golden.synth[at + 1].as_str()
    };
    let number = |name: &str| value(name).parse::<u32>().unwrap();
    let ranks: Vec<u32> = value("--ranks").split(',').map(|rank| rank.parse().unwrap()).collect();
    let shape = ModelShape {
        layers: number("--layers"),
        width: number("--width"),
        ffn: number("--ffn"),
        head_size: number("--head-size"),
        vocab: number("--vocab"),
        ranks: LoraRanks { decay: ranks[0], iclr: ranks[1], value: ranks[2], gate: ranks[3] },
    };
    let hot = golden.synth.iter().any(|word| word == "--hot");
    // The name says which kind of file the reference read; the default is GGUF.
    let container = if golden.name.ends_with("-st") || golden.name.ends_with("-pth") {
        Container::Safetensors
    } else {
        Container::Gguf
    };
    let seed = number("--seed").into();
    SynthOptions { shape, seed, container, mix: value("--mix").parse().unwrap(), hot, vocabulary: None }
}
