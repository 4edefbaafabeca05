//! Synthetic models: the files, and what the models in them compute.

mod behaviour;
mod files;
mod forward;

use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions};

/// A tiny model: two heads, three layers, four different ranks.
fn options(mix: Mix) -> SynthOptions {
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 };
    let shape = ModelShape {
        layers: 3,
        width: 128,
        ffn: 512,
        head_size: 64,
        vocab: 320,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    SynthOptions { shape, seed: 1, container: Container::Gguf, mix, hot: false, ffn_zeros: None, vocabulary: None }
}
