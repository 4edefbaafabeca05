//! The model of tests that edit references: one whose reference takes milliseconds.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::path::Path;
use std::sync::Arc;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};

/// Writes it to a folder and opens it.
pub(super) fn model(folder: &Path) -> Arc<Model> {
    let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
    let shape = ModelShape {
        layers: 1,
        width: 64,
        ffn: 64,
        head_size: 32,
        vocab: 40,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let (container, mix) = (Container::Gguf, Mix::F32);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    let path = folder.join("model.gguf");
    write(&options, &path, &mut unwatched).unwrap();
    Arc::new(Model::open(path).unwrap())
}
