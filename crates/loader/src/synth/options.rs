//! Options of a synthetic model.

use crate::names::Container;
use crate::writer::Mix;
use wgoose_graph::ModelShape;

/// What to write.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// The model's sizes.
    pub shape: ModelShape,
    /// Chooses the weights.
    pub seed: u64,
    /// The kind of file: GGUF or safetensors.
    pub container: Container,
    /// Which format each tensor is stored in.
    pub mix: Mix,
    /// Scales `ffn.key` by 32 and `ffn.value` by 1/1024: the same function, but the squares between them come near the
    /// limit of f16, as they do in some trained models. For float mixes only. In an F16 file of a large model
    /// `ffn.value` is then subnormal, which GPUs may flush to zero: BF16 and F32 are free of that.
    pub hot: bool,
    /// About this share of the squares between `ffn.key` and `ffn.value` is zero, from 0.5 to 0.99; half of them are if it
    /// is not given. Trained models have 0.86 to 0.90. `ln2.bias` is spread about a constant instead of about 0 and the
    /// weights of `ffn.key` about a small negative number: together they lower every key alike.
    pub ffn_zeros: Option<f32>,
    /// The bytes of each token by id, written to GGUF files. Id 0 is the end of text, but of 256 bytes; ids past
    /// the end of the list are padding. Without a list, ids 1 to 256 are the single bytes, or all of 256.
    pub vocabulary: Option<Vec<Vec<u8>>>,
}
