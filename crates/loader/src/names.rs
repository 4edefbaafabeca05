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

    /// Under which names the file keeps a weight.
    pub(crate) fn names(self, weight: Weight) -> Names {
        match (self, weight) {
            (Container::Gguf, _) => Names::One(gguf(weight)),
            (_, Weight::Layer(i, LayerWeight::AttMix)) => {
                Names::Stacked(MIXES.map(|mix| format!("blocks.{i}.att.x_{mix}")))
            }
            _ => Names::One(weight.to_string()),
        }
    }

    /// The layer a tensor's name speaks of.
    pub(crate) fn layer(self, name: &str) -> Option<u32> {
        let prefix = if self == Container::Gguf { "blk." } else { "blocks." };
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
    };
    format!("blk.{layer}.{name}")
}
