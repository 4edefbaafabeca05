//! The names of Hugging Face's port, `Rwkv7ForCausalLM` (github.com/huggingface/transformers and
//! github.com/rwkv-rs/transformers-rwkv, `models/rwkv7/convert_rwkv7_checkpoint_to_hf.py`): the authors', in a body
//! that does not hold the head. Adapters are as the authors have them.

use super::{AdapterLayout, Convention, checkpoint};
use wgoose_graph::Weight;

pub(super) const NAMES: Convention = Convention {
    whose: "the names of Hugging Face's port (Rwkv7ForCausalLM)",
    bodies: &["rwkv7.", "model."],
    layer: "blocks.",
    names,
    mixes: &[&checkpoint::MIXES],
    adapters: Some(AdapterLayout::InOut),
};

fn names(weight: Weight) -> &'static [&'static str] {
    match weight {
        Weight::Embedding => &["emb.weight", "embeddings.weight"],
        weight => checkpoint::names(weight),
    }
}
