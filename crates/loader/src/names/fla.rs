//! The names of flash-linear-attention (github.com/fla-org/flash-linear-attention, `utils/convert_from_rwkv7.py`): each
//! tensor is one of the authors', adapters transposed. The bias of an adapter's second half is one of the authors'
//! vectors. Its first version had the six mixes in one tensor, in the same order (`load_state_dict` in
//! `models/rwkv7/modeling_rwkv7.py`).

use super::{AdapterLayout, Convention, checkpoint};
use wgoose_graph::{LayerWeight as L, Weight};

pub(super) const NAMES: Convention = Convention {
    whose: "flash-linear-attention's names",
    bodies: &["model."],
    layer: "layers.",
    names,
    mixes: &[&["attn.x_r", "attn.x_w", "attn.x_k", "attn.x_v", "attn.x_a", "attn.x_g"], &["attn.x_x"]],
    adapters: Some(AdapterLayout::OutIn),
};

fn names(weight: Weight) -> &'static [&'static str] {
    let weight = match weight {
        Weight::Embedding => return &["embeddings.weight"],
        Weight::Ln0Scale => return &["layers.0.pre_norm.weight"],
        Weight::Ln0Bias => return &["layers.0.pre_norm.bias"],
        Weight::LnOutScale => return &["norm.weight"],
        Weight::LnOutBias => return &["norm.bias"],
        Weight::Head => return &["lm_head.weight"],
        Weight::Layer(_, weight) => weight,
    };
    match weight {
        L::Ln1Scale => &["attn_norm.weight"],
        L::Ln1Bias => &["attn_norm.bias"],
        L::AttMix => &[],
        L::Receptance => &["attn.r_proj.weight"],
        L::Key => &["attn.k_proj.weight"],
        L::Value => &["attn.v_proj.weight"],
        L::DecayBias => &["attn.w_lora.lora.2.bias"],
        L::DecayDown => &["attn.w_lora.lora.0.weight"],
        L::DecayUp => &["attn.w_lora.lora.2.weight"],
        L::IclrBias => &["attn.a_lora.lora.2.bias"],
        L::IclrDown => &["attn.a_lora.lora.0.weight"],
        L::IclrUp => &["attn.a_lora.lora.2.weight"],
        L::ValueBias => &["attn.v_lora.lora.2.bias"],
        L::ValueDown => &["attn.v_lora.lora.0.weight"],
        L::ValueUp => &["attn.v_lora.lora.2.weight"],
        L::GateDown => &["attn.g_lora.lora.0.weight"],
        L::GateUp => &["attn.g_lora.lora.2.weight"],
        L::RemovalKey => &["attn.k_k"],
        L::KeyIclr => &["attn.k_a"],
        L::Bonus => &["attn.r_k"],
        L::LnXScale => &["attn.g_norm.weight"],
        L::LnXBias => &["attn.g_norm.bias"],
        L::Output => &["attn.o_proj.weight"],
        L::Ln2Scale => &["ffn_norm.weight"],
        L::Ln2Bias => &["ffn_norm.bias"],
        L::FfnMix => &["ffn.x_k"],
        L::FfnKey => &["ffn.key.weight"],
        L::DeepEmbedTable | L::DeepEmbedResidual | L::DeepEmbedDown | L::DeepEmbedUp | L::DeepEmbedBias => {
            checkpoint::names(Weight::Layer(0, weight))
        }
        L::FfnValue => &["ffn.value.weight"],
    }
}
