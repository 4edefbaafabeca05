//! The tokenizers that are compared: ours and those of web-rwkv, `rwkv-tokenizer` and llama.cpp, each with the World
//! vocabulary, called as its own users call it.

mod llama_cpp;
mod texts;

pub use llama_cpp::LlamaCpp;
pub use texts::{Text, texts};

use wgoose_session::tokenizer::Tokenizer;

/// A tokenizer to be timed.
pub trait Peer {
    /// Whose it is.
    fn name(&self) -> &'static str;

    /// Encodes a text as it comes from its library; returns the number of ids.
    fn encode(&self, text: &str) -> usize;

    /// The ids of a text.
    fn ids(&self, text: &str) -> Vec<u32>;
}

/// All of them.
pub fn peers() -> Vec<Box<dyn Peer>> {
    vec![Box::new(Wgoose), Box::new(WebRwkv::new()), Box::new(RwkvTokenizer::new()), Box::new(LlamaCpp::new())]
}

/// This project.
pub struct Wgoose;

impl Peer for Wgoose {
    fn name(&self) -> &'static str {
        "wgoose"
    }

    fn encode(&self, text: &str) -> usize {
        Tokenizer::world().encode(text.as_bytes()).len()
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        Tokenizer::world().encode(text.as_bytes())
    }
}

/// The crate `web-rwkv`.
pub struct WebRwkv(web_rwkv::tokenizer::Tokenizer);

impl WebRwkv {
    /// With the World vocabulary in the JSON that it reads: each id with its bytes.
    pub fn new() -> Self {
        let tokens: serde_json::Map<String, serde_json::Value> = Tokenizer::world()
            .vocabulary()
            .enumerate()
            .skip(1)
            .map(|(id, bytes)| (id.to_string(), bytes.into()))
            .collect();
        let json = serde_json::Value::from(tokens).to_string();
        WebRwkv(web_rwkv::tokenizer::Tokenizer::new(&json).expect("web-rwkv reads the vocabulary"))
    }
}

impl Default for WebRwkv {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer for WebRwkv {
    fn name(&self) -> &'static str {
        "web-rwkv 0.10.20"
    }

    fn encode(&self, text: &str) -> usize {
        self.0.encode(text.as_bytes()).map_or(0, |ids| ids.len())
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        self.0.encode(text.as_bytes()).expect("the vocabulary has every byte")
    }
}

/// The crate `rwkv-tokenizer`, which is also what the PyPI package of that name runs.
pub struct RwkvTokenizer(rwkv_tokenizer::WorldTokenizer);

impl RwkvTokenizer {
    /// With the vocabulary that the crate ships.
    pub fn new() -> Self {
        RwkvTokenizer(rwkv_tokenizer::WorldTokenizer::new(None).expect("the crate ships its vocabulary"))
    }
}

impl Default for RwkvTokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer for RwkvTokenizer {
    fn name(&self) -> &'static str {
        "rwkv-tokenizer 0.9.1"
    }

    fn encode(&self, text: &str) -> usize {
        self.0.encode(text).len()
    }

    fn ids(&self, text: &str) -> Vec<u32> {
        self.0.encode(text).into_iter().map(u32::from).collect()
    }
}
