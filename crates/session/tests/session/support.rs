//! Tiny models that can be given text.

use std::path::PathBuf;
use tempfile::TempDir;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{Backend, Session};

/// Two layers of two heads, and the beginning of the World vocabulary.
pub(crate) const SHAPE: ModelShape = ModelShape {
    layers: 2,
    width: 128,
    ffn: 256,
    head_size: 64,
    vocab: 320,
    ranks: LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// A model file that lives as long as its folder.
pub(crate) struct Tiny {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

/// A model of [`SHAPE`].
pub(crate) fn tiny(seed: u64) -> Tiny {
    let vocabulary = Tokenizer::world().vocabulary().take(SHAPE.vocab as usize).map(<[u8]>::to_vec).collect();
    tiny_of(SHAPE, seed, Some(vocabulary))
}

/// A model with another shape or vocabulary.
pub(crate) fn tiny_of(shape: ModelShape, seed: u64, vocabulary: Option<Vec<Vec<u8>>>) -> Tiny {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let options = SynthOptions {
        shape,
        seed,
        container: Container::Gguf,
        mix: Mix::F16,
        hot: false,
        ffn_zeros: None,
        vocabulary,
    };
    write(&options, &path, &mut unwatched).unwrap();
    Tiny { folder, path }
}

/// A session on the CPU reference.
pub(crate) fn on_cpu(model: &Tiny) -> Session {
    Session::builder().backend(Backend::Cpu).open(&model.path).unwrap()
}
