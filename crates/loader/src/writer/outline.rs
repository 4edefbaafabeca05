//! The outline of a file, before any number.

use super::chosen::ChosenFormats;
use super::mix::Mix;
use super::setting::Setting;
use crate::gguf::pair::Pair;
use crate::names::Container;
use crate::view::TensorView;
use wgoose_graph::{Format, ModelShape, Weight};

/// What is known of a file before any number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline<'a> {
    /// The model's sizes.
    pub(crate) shape: &'a ModelShape,
    /// The kind of file: GGUF or safetensors.
    pub(crate) container: Container,
    /// Which format each tensor is stored in.
    pub(crate) mix: Mix,
    /// What a GGUF file has in place of the mix's formats.
    pub(crate) chosen: Option<&'a ChosenFormats>,
    /// What a GGUF file calls the model where its source has no name for it.
    pub(crate) name: &'a str,
    /// The bytes of each token by id, for GGUF files; without, the file says that it has none.
    pub(crate) vocabulary: Option<&'a [Vec<u8>]>,
    /// What the source says of itself, for GGUF files: kept but for what is another matter in the new one.
    pub(crate) kept: &'a [Pair],
    /// What a GGUF file is to say beside.
    pub(crate) set: &'a [Setting],
    /// The tensors of embedding heads, for safetensors files: copied as they are.
    pub(crate) heads: &'a [(String, TensorView<'a>)],
}

impl Outline<'_> {
    /// The format of a weight.
    pub(super) fn format(&self, weight: Weight) -> Format {
        let chosen = self.chosen.and_then(|chosen| chosen.formats.get(&weight).copied());
        match self.container {
            Container::Gguf => chosen.unwrap_or_else(|| self.mix.in_gguf(weight)),
            Container::Safetensors | Container::Pth => self.mix.matrix(),
        }
    }

    /// Whether any weight is stored in blocks.
    pub(super) fn is_quantised(&self) -> bool {
        Weight::all(self.shape).any(|weight| self.format(weight).is_quantised())
    }
}
