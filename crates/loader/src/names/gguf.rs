//! llama.cpp's names (its `gguf-py/gguf/constants.py`, architecture RWKV7).

use super::{AdapterLayout, Convention, checkpoint};
use wgoose_graph::{LayerWeight as L, Weight};

pub(super) const NAMES: Convention = Convention {
    whose: "llama.cpp's names",
    bodies: &[""],
    layer: "blk.",
    names,
    mixes: &[&["time_mix_lerp_fused.weight"]],
    adapters: Some(AdapterLayout::OutIn),
};

fn names(weight: Weight) -> &'static [&'static str] {
    let weight = match weight {
        Weight::Embedding => return &["token_embd.weight"],
        Weight::Ln0Scale => return &["token_embd_norm.weight"],
        Weight::Ln0Bias => return &["token_embd_norm.bias"],
        Weight::LnOutScale => return &["output_norm.weight"],
        Weight::LnOutBias => return &["output_norm.bias"],
        Weight::Head => return &["output.weight"],
        Weight::Layer(_, weight) => weight,
    };
    match weight {
        L::Ln1Scale => &["attn_norm.weight"],
        L::Ln1Bias => &["attn_norm.bias"],
        L::AttMix => &[],
        L::Receptance => &["time_mix_receptance.weight"],
        L::Key => &["time_mix_key.weight"],
        L::Value => &["time_mix_value.weight"],
        L::DecayBias => &["time_mix_w0.weight"],
        L::DecayDown => &["time_mix_w1.weight"],
        L::DecayUp => &["time_mix_w2.weight"],
        L::IclrBias => &["time_mix_a0.weight"],
        L::IclrDown => &["time_mix_a1.weight"],
        L::IclrUp => &["time_mix_a2.weight"],
        L::ValueBias => &["time_mix_v0.weight"],
        L::ValueDown => &["time_mix_v1.weight"],
        L::ValueUp => &["time_mix_v2.weight"],
        L::GateDown => &["time_mix_g1.weight"],
        L::GateUp => &["time_mix_g2.weight"],
        L::RemovalKey => &["time_mix_k_k.weight"],
        L::KeyIclr => &["time_mix_k_a.weight"],
        L::Bonus => &["time_mix_r_k.weight"],
        L::LnXScale => &["time_mix_ln.weight"],
        L::LnXBias => &["time_mix_ln.bias"],
        L::Output => &["time_mix_output.weight"],
        L::Ln2Scale => &["attn_norm_2.weight"],
        L::Ln2Bias => &["attn_norm_2.bias"],
        L::FfnMix => &["channel_mix_lerp_k.weight"],
        L::FfnKey => &["channel_mix_key.weight"],
        L::DeepEmbedTable | L::DeepEmbedResidual | L::DeepEmbedDown | L::DeepEmbedUp | L::DeepEmbedBias => {
            checkpoint::names(Weight::Layer(0, weight))
        }
        L::FfnValue => &["channel_mix_value.weight"],
    }
}
