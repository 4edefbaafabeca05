//! The model that an example runs: the file named first on the command line, or a tiny one that it writes itself.

use std::error::Error;
use std::path::PathBuf;
use tempfile::TempDir;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::tokenizer::Tokenizer;

/// The path of a model, and the folder that must live as long as it is used.
pub(crate) fn model() -> Result<(PathBuf, Option<TempDir>), Box<dyn Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        return Ok((path.into(), None));
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tiny.gguf");
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 64 };
    let shape = ModelShape {
        layers: 2,
        width: 128,
        ffn: 512,
        head_size: 64,
        vocab: 320,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    // Random weights talk nonsense, but they are read, run and measured like any others.
    let vocabulary = Tokenizer::world().vocabulary().take(shape.vocab as usize).map(<[u8]>::to_vec).collect();
    let options = SynthOptions {
        shape,
        seed: 7,
        container: Container::Gguf,
        mix: Mix::F16,
        hot: false,
        ffn_zeros: None,
        vocabulary: Some(vocabulary),
    };
    write(&options, &path, &mut unwatched)?;
    Ok((path, Some(folder)))
}
