//! The names of `RwkvForCausalLM`, RWKV-7 in the modules of Hugging Face's other decoders
//! (github.com/rwkv-rs/transformers-rwkv, `temp/rwkv_pth2st.py`). The matrices of the channel mix have Llama's names,
//! or the authors'. Adapters are as the authors have them.

use super::{AdapterLayout, Convention, checkpoint};
use wgoose_graph::{LayerWeight as L, Weight};

pub(super) const NAMES: Convention = Convention {
    whose: "the names of Hugging Face's decoders (RwkvForCausalLM)",
    bodies: &["model."],
    layer: "layers.",
    names,
    mixes: &[&[
        "linear_attn.x_r",
        "linear_attn.x_w",
        "linear_attn.x_k",
        "linear_attn.x_v",
        "linear_attn.x_a",
        "linear_attn.x_g",
    ]],
    adapters: Some(AdapterLayout::InOut),
};

fn names(weight: Weight) -> &'static [&'static str] {
    let weight = match weight {
        Weight::Embedding => return &["embed_tokens.weight"],
        Weight::Ln0Scale => return &["embedding_norm.weight"],
        Weight::Ln0Bias => return &["embedding_norm.bias"],
        Weight::LnOutScale => return &["norm.weight"],
        Weight::LnOutBias => return &["norm.bias"],
        Weight::Head => return &["lm_head.weight"],
        Weight::Layer(_, weight) => weight,
    };
    match weight {
        L::Ln1Scale => &["input_layernorm.weight"],
        L::Ln1Bias => &["input_layernorm.bias"],
        L::AttMix => &[],
        L::Receptance => &["linear_attn.r_proj.weight"],
        L::Key => &["linear_attn.k_proj.weight"],
        L::Value => &["linear_attn.v_proj.weight"],
        L::DecayBias => &["linear_attn.w0"],
        L::DecayDown => &["linear_attn.w1"],
        L::DecayUp => &["linear_attn.w2"],
        L::IclrBias => &["linear_attn.a0"],
        L::IclrDown => &["linear_attn.a1"],
        L::IclrUp => &["linear_attn.a2"],
        L::ValueBias => &["linear_attn.v0"],
        L::ValueDown => &["linear_attn.v1"],
        L::ValueUp => &["linear_attn.v2"],
        L::GateDown => &["linear_attn.g1"],
        L::GateUp => &["linear_attn.g2"],
        L::RemovalKey => &["linear_attn.k_k"],
        L::KeyIclr => &["linear_attn.k_a"],
        L::Bonus => &["linear_attn.r_k"],
        L::LnXScale => &["linear_attn.g_norm.weight"],
        L::LnXBias => &["linear_attn.g_norm.bias"],
        L::Output => &["linear_attn.o_proj.weight"],
        L::Ln2Scale => &["post_attention_layernorm.weight"],
        L::Ln2Bias => &["post_attention_layernorm.bias"],
        L::FfnMix => &["mlp.x_k"],
        L::FfnKey => &["mlp.up_proj.weight", "mlp.key.weight"],
        L::DeepEmbedTable | L::DeepEmbedResidual | L::DeepEmbedDown | L::DeepEmbedUp | L::DeepEmbedBias => {
            checkpoint::names(Weight::Layer(0, weight))
        }
        L::FfnValue => &["mlp.down_proj.weight", "mlp.value.weight"],
    }
}
