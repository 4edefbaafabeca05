//! What the containers call each weight.

use std::fmt;
use std::io::Read;
use std::path::Path;
use wgoose_graph::{LayerWeight, Weight};

/// The kind of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// llama.cpp's GGUF.
    Gguf,
    /// A safetensors file with the checkpoint's names (web-rwkv's `.st`).
    Safetensors,
    /// A checkpoint as `torch.save` writes it.
    Pth,
}

impl Container {
    /// Tells the container by the file's first bytes; `None` if they belong to none of them.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'G', b'G', b'U', b'F', ..] => Some(Container::Gguf),
            [b'P', b'K', 3, 4, ..] => Some(Container::Pth),
            [_, _, _, _, _, _, _, _, b'{', ..] => Some(Container::Safetensors),
            _ => None,
        }
    }

    /// What a file is by its first bytes; `None` where it is none of them, or cannot be read.
    pub fn of_file(path: &Path) -> Option<Self> {
        let mut start = Vec::new();
        wgoose_files::open(path).ok()?.take(16).read_to_end(&mut start).ok()?;
        Container::detect(&start)
    }

    /// The names that are written into such a file, and most often found in it.
    pub(crate) fn naming(self) -> Naming {
        match self {
            Container::Gguf => Naming::Gguf,
            Container::Safetensors | Container::Pth => Naming::Checkpoint,
        }
    }
}

/// Whose names the tensors of a file have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// llama.cpp's.
    Gguf,
    /// The authors' checkpoints'.
    Checkpoint,
    /// Those of the port to Hugging Face's transformers (github.com/fla-org/flash-linear-attention, `rwkv7`).
    HuggingFace,
}

impl Naming {
    /// Tells by the names in a file of that kind.
    pub(crate) fn of<'a>(container: Container, mut names: impl Iterator<Item = &'a str>) -> Self {
        let is_ported = |name: &str| name.starts_with(HUGGING_FACE_LAYER) || name == HUGGING_FACE_EMBEDDING;
        match container.naming() {
            Naming::Checkpoint if names.any(is_ported) => Naming::HuggingFace,
            naming => naming,
        }
    }

    /// Under which names the file keeps a weight.
    pub(crate) fn names(self, weight: Weight) -> Names {
        match (self, weight) {
            (Naming::Gguf, _) => Names::One(gguf(weight)),
            (Naming::Checkpoint, Weight::Layer(i, LayerWeight::AttMix)) => {
                Names::Stacked(MIXES.map(|mix| format!("blocks.{i}.att.x_{mix}")))
            }
            (Naming::Checkpoint, _) => Names::One(weight.to_string()),
            (Naming::HuggingFace, Weight::Layer(i, LayerWeight::AttMix)) => {
                Names::Stacked(MIXES.map(|mix| format!("{HUGGING_FACE_LAYER}{i}.attn.x_{mix}")))
            }
            (Naming::HuggingFace, _) => Names::One(hugging_face(weight)),
        }
    }

    /// The layer a tensor's name speaks of.
    pub(crate) fn layer(self, name: &str) -> Option<u32> {
        let prefix = match self {
            Naming::Gguf => "blk.",
            Naming::Checkpoint => "blocks.",
            Naming::HuggingFace => HUGGING_FACE_LAYER,
        };
        let (number, _) = name.strip_prefix(prefix)?.split_once('.')?;
        number.parse().ok()
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Container::Gguf => "GGUF",
            Container::Safetensors => "safetensors",
            Container::Pth => ".pth",
        })
    }
}

/// Rows of [`LayerWeight::AttMix`], in order.
const MIXES: [char; 6] = ['r', 'w', 'k', 'v', 'a', 'g'];

/// The names under which a file keeps a weight.
pub(crate) enum Names {
    /// One tensor.
    One(String),
    /// Six vectors, one per row.
    Stacked([String; 6]),
}

const HUGGING_FACE_LAYER: &str = "model.layers.";
const HUGGING_FACE_EMBEDDING: &str = "model.embeddings.weight";

/// The names of the port (its `utils/convert_from_rwkv7.py`): each tensor is one of the checkpoint's, adapters transposed. The bias of
/// an adapter's second half is the checkpoint's vector of its own.
fn hugging_face(weight: Weight) -> String {
    let (layer, weight) = match weight {
        Weight::Embedding => return HUGGING_FACE_EMBEDDING.into(),
        Weight::Ln0Scale => return "model.layers.0.pre_norm.weight".into(),
        Weight::Ln0Bias => return "model.layers.0.pre_norm.bias".into(),
        Weight::LnOutScale => return "model.norm.weight".into(),
        Weight::LnOutBias => return "model.norm.bias".into(),
        Weight::Head => return "lm_head.weight".into(),
        Weight::Layer(layer, weight) => (layer, weight),
    };
    let name = match weight {
        LayerWeight::Ln1Scale => "attn_norm.weight",
        LayerWeight::Ln1Bias => "attn_norm.bias",
        LayerWeight::AttMix => "attn.x_r",
        LayerWeight::Receptance => "attn.r_proj.weight",
        LayerWeight::Key => "attn.k_proj.weight",
        LayerWeight::Value => "attn.v_proj.weight",
        LayerWeight::DecayBias => "attn.w_lora.lora.2.bias",
        LayerWeight::DecayDown => "attn.w_lora.lora.0.weight",
        LayerWeight::DecayUp => "attn.w_lora.lora.2.weight",
        LayerWeight::IclrBias => "attn.a_lora.lora.2.bias",
        LayerWeight::IclrDown => "attn.a_lora.lora.0.weight",
        LayerWeight::IclrUp => "attn.a_lora.lora.2.weight",
        LayerWeight::ValueBias => "attn.v_lora.lora.2.bias",
        LayerWeight::ValueDown => "attn.v_lora.lora.0.weight",
        LayerWeight::ValueUp => "attn.v_lora.lora.2.weight",
        LayerWeight::GateDown => "attn.g_lora.lora.0.weight",
        LayerWeight::GateUp => "attn.g_lora.lora.2.weight",
        LayerWeight::RemovalKey => "attn.k_k",
        LayerWeight::KeyIclr => "attn.k_a",
        LayerWeight::Bonus => "attn.r_k",
        LayerWeight::LnXScale => "attn.g_norm.weight",
        LayerWeight::LnXBias => "attn.g_norm.bias",
        LayerWeight::Output => "attn.o_proj.weight",
        LayerWeight::Ln2Scale => "ffn_norm.weight",
        LayerWeight::Ln2Bias => "ffn_norm.bias",
        LayerWeight::FfnMix => "ffn.x_k",
        LayerWeight::FfnKey => "ffn.key.weight",
        LayerWeight::FfnValue => "ffn.value.weight",
        LayerWeight::DeepEmbedTable
        | LayerWeight::DeepEmbedResidual
        | LayerWeight::DeepEmbedDown
        | LayerWeight::DeepEmbedUp
        | LayerWeight::DeepEmbedBias => return Weight::Layer(layer, weight).to_string(),
    };
    format!("{HUGGING_FACE_LAYER}{layer}.{name}")
}

/// llama.cpp's names (its `gguf-py/gguf/constants.py`, architecture RWKV7).
fn gguf(weight: Weight) -> String {
    let (layer, weight) = match weight {
        Weight::Embedding => return "token_embd.weight".into(),
        Weight::Ln0Scale => return "token_embd_norm.weight".into(),
        Weight::Ln0Bias => return "token_embd_norm.bias".into(),
        Weight::LnOutScale => return "output_norm.weight".into(),
        Weight::LnOutBias => return "output_norm.bias".into(),
        Weight::Head => return "output.weight".into(),
        Weight::Layer(layer, weight) => (layer, weight),
    };
    let name = match weight {
        LayerWeight::Ln1Scale => "attn_norm.weight",
        LayerWeight::Ln1Bias => "attn_norm.bias",
        LayerWeight::AttMix => "time_mix_lerp_fused.weight",
        LayerWeight::Receptance => "time_mix_receptance.weight",
        LayerWeight::Key => "time_mix_key.weight",
        LayerWeight::Value => "time_mix_value.weight",
        LayerWeight::DecayBias => "time_mix_w0.weight",
        LayerWeight::DecayDown => "time_mix_w1.weight",
        LayerWeight::DecayUp => "time_mix_w2.weight",
        LayerWeight::IclrBias => "time_mix_a0.weight",
        LayerWeight::IclrDown => "time_mix_a1.weight",
        LayerWeight::IclrUp => "time_mix_a2.weight",
        LayerWeight::ValueBias => "time_mix_v0.weight",
        LayerWeight::ValueDown => "time_mix_v1.weight",
        LayerWeight::ValueUp => "time_mix_v2.weight",
        LayerWeight::GateDown => "time_mix_g1.weight",
        LayerWeight::GateUp => "time_mix_g2.weight",
        LayerWeight::RemovalKey => "time_mix_k_k.weight",
        LayerWeight::KeyIclr => "time_mix_k_a.weight",
        LayerWeight::Bonus => "time_mix_r_k.weight",
        LayerWeight::LnXScale => "time_mix_ln.weight",
        LayerWeight::LnXBias => "time_mix_ln.bias",
        LayerWeight::Output => "time_mix_output.weight",
        LayerWeight::Ln2Scale => "attn_norm_2.weight",
        LayerWeight::Ln2Bias => "attn_norm_2.bias",
        LayerWeight::FfnMix => "channel_mix_lerp_k.weight",
        LayerWeight::FfnKey => "channel_mix_key.weight",
        LayerWeight::FfnValue => "channel_mix_value.weight",
        LayerWeight::DeepEmbedTable
        | LayerWeight::DeepEmbedResidual
        | LayerWeight::DeepEmbedDown
        | LayerWeight::DeepEmbedUp
        | LayerWeight::DeepEmbedBias => return Weight::Layer(layer, weight).to_string(),
    };
    format!("blk.{layer}.{name}")
}
