//! What is known of a file before any number.

use super::mix::Mix;
use crate::names::Container;
use wgoose_graph::ModelShape;

/// What is known of a file before any number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline<'a> {
    /// The model's sizes.
    pub(crate) shape: &'a ModelShape,
    /// The kind of file: GGUF or safetensors.
    pub(crate) container: Container,
    /// Which format each tensor is stored in.
    pub(crate) mix: Mix,
    /// What a GGUF file calls the model.
    pub(crate) name: &'a str,
    /// The bytes of each token by id, for GGUF files; without, ids 1 to 256 are the single bytes.
    pub(crate) vocabulary: Option<&'a [Vec<u8>]>,
    /// llama.cpp's name of a chat template, for GGUF files.
    pub(crate) chat_template: Option<&'a str>,
}
