//! llama.cpp's tokenizer, through the crate `llama-cpp-2`.

use crate::Peer;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use tempfile::TempDir;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::tokenizer::Tokenizer;

/// llama.cpp with the World vocabulary of a GGUF file.
pub struct LlamaCpp {
    model: LlamaModel,
    /// Outlives the model that was read from it.
    _folder: TempDir,
}

impl LlamaCpp {
    /// Writes the smallest model with the World vocabulary, of which llama.cpp reads the vocabulary alone.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a model");
        let path = folder.path().join("vocabulary.gguf");
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
        let options = SynthOptions {
            shape: ModelShape {
                layers: 1,
                width: 64,
                ffn: 64,
                head_size: 64,
                vocab: 65_536,
                ranks,
                deep_embed: None,
                embedding_norm: true,
                output_head: true,
            },
            seed: 0,
            container: Container::Gguf,
            mix: Mix::F16,
            hot: false,
            ffn_zeros: None,
            vocabulary: Some(Tokenizer::world().vocabulary().map(<[u8]>::to_vec).collect()),
        };
        write(&options, &path, &mut unwatched).expect("the model can be written");
        let mut backend = LlamaBackend::init().expect("llama.cpp starts once a process");
        backend.void_logs();
        let params = LlamaModelParams::default().with_vocab_only(true);
        let model = LlamaModel::load_from_file(&backend, &path, &params).expect("llama.cpp reads the vocabulary");
        LlamaCpp { model, _folder: folder }
    }
}

impl Default for LlamaCpp {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer for LlamaCpp {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }

    fn encode(&self, text: &str) -> usize {
        self.model.vocab().tokenize(text.as_bytes(), false, false).len()
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        let tokens = self.model.vocab().tokenize(text.as_bytes(), false, false);
        tokens.into_iter().map(|token| token.0.cast_unsigned()).collect()
    }
}
