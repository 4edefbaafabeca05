//! The authors' names (github.com/BlinkDL/RWKV-LM, `RWKV-v7/rwkv_v7_demo.py`): the names in their .pth files and, with
//! transposed adapters, in web-rwkv's safetensors files.

use super::Convention;
use wgoose_graph::{LayerWeight as L, Weight};

pub(super) const NAMES: Convention = Convention {
    whose: "the authors' names",
    bodies: &[""],
    layer: "blocks.",
    names,
    mixes: &[&MIXES],
    adapters: None,
};

pub(super) const MIXES: [&str; 6] = ["att.x_r", "att.x_w", "att.x_k", "att.x_v", "att.x_a", "att.x_g"];

pub(super) fn names(weight: Weight) -> &'static [&'static str] {
    let weight = match weight {
        Weight::Embedding => return &["emb.weight"],
        Weight::Ln0Scale => return &["blocks.0.ln0.weight"],
        Weight::Ln0Bias => return &["blocks.0.ln0.bias"],
        Weight::LnOutScale => return &["ln_out.weight"],
        Weight::LnOutBias => return &["ln_out.bias"],
        Weight::Head => return &["head.weight"],
        Weight::Layer(_, weight) => weight,
    };
    match weight {
        L::Ln1Scale => &["ln1.weight"],
        L::Ln1Bias => &["ln1.bias"],
        L::AttMix => &[],
        L::Receptance => &["att.receptance.weight"],
        L::Key => &["att.key.weight"],
        L::Value => &["att.value.weight"],
        L::DecayBias => &["att.w0"],
        L::DecayDown => &["att.w1"],
        L::DecayUp => &["att.w2"],
        L::IclrBias => &["att.a0"],
        L::IclrDown => &["att.a1"],
        L::IclrUp => &["att.a2"],
        L::ValueBias => &["att.v0"],
        L::ValueDown => &["att.v1"],
        L::ValueUp => &["att.v2"],
        L::GateDown => &["att.g1"],
        L::GateUp => &["att.g2"],
        L::RemovalKey => &["att.k_k"],
        L::KeyIclr => &["att.k_a"],
        L::Bonus => &["att.r_k"],
        L::LnXScale => &["att.ln_x.weight"],
        L::LnXBias => &["att.ln_x.bias"],
        L::Output => &["att.output.weight"],
        L::Ln2Scale => &["ln2.weight"],
        L::Ln2Bias => &["ln2.bias"],
        L::FfnMix => &["ffn.x_k"],
        L::FfnKey => &["ffn.key.weight"],
        L::DeepEmbedTable => &["ffn.s_emb.weight"],
        L::DeepEmbedResidual => &["ffn.s_emb_x.weight"],
        L::DeepEmbedDown => &["ffn.s1"],
        L::DeepEmbedUp => &["ffn.s2"],
        L::DeepEmbedBias => &["ffn.s0"],
        L::FfnValue => &["ffn.value.weight"],
    }
}
