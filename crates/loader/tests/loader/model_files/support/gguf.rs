//! Writes GGUF.

use super::{Tensor, numbers};
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight, WeightClass};

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    U32(u32),
    F32(f32),
    Text(String),
    Texts(Vec<String>),
    /// Type and bytes as they are.
    Raw(u32, Vec<u8>),
}

/// A file to be written.
#[derive(Clone, Debug)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) alignment: usize,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Value {
    fn bytes(&self) -> (u32, Vec<u8>) {
        match self {
            Value::U32(n) => (4, n.to_le_bytes().to_vec()),
            Value::F32(x) => (6, x.to_le_bytes().to_vec()),
            Value::Text(t) => (8, text(t)),
            Value::Texts(texts) => {
                let head = [&8u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes()].concat();
                (9, texts.iter().fold(head, |bytes, t| [bytes, text(t)].concat()))
            }
            Value::Raw(kind, bytes) => (*kind, bytes.clone()),
        }
    }
}

impl Gguf {
    /// As llama.cpp's converter writes a model: matrices in F16, the rest in F32, adapters of both kinds.
    pub(crate) fn of(shape: &ModelShape) -> Self {
        let mut keys: Vec<_> = [
            ("block_count", shape.layers),
            ("context_length", 1_048_576),
            ("embedding_length", shape.width),
            ("feed_forward_length", shape.ffn),
            ("wkv.head_size", shape.head_size),
            ("attention.decay_lora_rank", shape.ranks.decay),
            ("attention.iclr_lora_rank", shape.ranks.iclr),
            ("attention.value_residual_mix_lora_rank", shape.ranks.value),
            ("attention.gate_lora_rank", shape.ranks.gate),
        ]
        .map(|(key, value)| (format!("rwkv7.{key}"), Value::U32(value)))
        .into();
        keys.push(("general.architecture".into(), Value::Text("rwkv7".into())));
        keys.push(("rwkv7.attention.layer_norm_epsilon".into(), Value::F32(1e-5)));
        let tokens = ["<s>", r"\x00", "a", r"\n", r"\xe4\xbd", r"it\'s", " the", "[PAD7]", "[PAD8]", "[PAD9]"];
        let tokens = tokens.map(str::to_owned).into_iter().cycle().take(shape.vocab as usize).collect();
        keys.push(("tokenizer.ggml.tokens".into(), Value::Texts(tokens)));
        Gguf { version: 3, keys, tensors: Weight::all(shape).map(|w| tensor(shape, w)).collect(), alignment: 32 }
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.keys.retain(|(k, _)| k != key);
        self.keys.push((key.into(), value));
    }

    /// Everything before the data section, with the given offsets of the tensors in it.
    pub(crate) fn header(&self, offsets: &[u64]) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            let (kind, bytes) = value.bytes();
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(bytes);
        }
        for (t, offset) in self.tensors.iter().zip(offsets) {
            file.extend(text(&t.name));
            file.extend((t.dims.len() as u32).to_le_bytes());
            t.dims.iter().rev().for_each(|&d| file.extend((d as u64).to_le_bytes()));
            file.extend(kind(t.format).to_le_bytes());
            file.extend(offset.to_le_bytes());
        }
        file
    }

    /// Offsets of the tensors in the data section.
    pub(crate) fn offsets(&self) -> Vec<u64> {
        let mut at = 0;
        let place = |t: &Tensor| {
            let here = at;
            at = (at + t.bytes.len()).next_multiple_of(self.alignment);
            here as u64
        };
        self.tensors.iter().map(place).collect()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        self.write_at(&self.offsets())
    }

    /// Writes other offsets than those at which the data lies.
    pub(crate) fn write_at(&self, offsets: &[u64]) -> Vec<u8> {
        let mut file = self.header(offsets);
        for t in &self.tensors {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
            file.extend(&t.bytes);
        }
        file
    }
}

fn kind(format: Format) -> u32 {
    match format {
        Format::F32 => 0,
        Format::F16 => 1,
        Format::Q4_0 => 2,
        Format::Q8_0 => 8,
        Format::Q4_K => 12,
        Format::Q5_K => 13,
        Format::Q6_K => 14,
        Format::BF16 => 30,
        _ => panic!("no file holds {format}"),
    }
}

fn tensor(shape: &ModelShape, weight: Weight) -> Tensor {
    let [rows, cols] = weight.shape(shape).map(|n| n as usize);
    let dims = match weight {
        Weight::Layer(_, LayerWeight::AttMix) => vec![rows, 1, 1, cols],
        _ if weight.class() == WeightClass::Vector => vec![cols],
        _ => vec![rows, cols],
    };
    let format = match weight {
        Weight::Layer(_, LayerWeight::DecayDown | LayerWeight::DecayUp) => Format::F32,
        _ if weight.class() == WeightClass::Vector => Format::F32,
        _ => Format::F16,
    };
    Tensor::new(name(weight), format, &dims, &numbers(shape, weight))
}

/// The checkpoint's names become llama.cpp's.
fn name(weight: Weight) -> String {
    let canonical = weight.to_string();
    let Weight::Layer(..) = weight else {
        return match canonical.rsplit_once('.').unwrap() {
            ("emb", end) => format!("token_embd.{end}"),
            ("blocks.0.ln0", end) => format!("token_embd_norm.{end}"),
            ("ln_out", end) => format!("output_norm.{end}"),
            (_, end) => format!("output.{end}"),
        };
    };
    let name =
        canonical.replace("blocks.", "blk.").replace("att.x_rwkvag", "att.lerp_fused").replace("ffn.x_k", "ffn.lerp_k");
    let name = name.replace(".ln1.", ".attn_norm.").replace(".ln2.", ".attn_norm_2.").replace(".ln_x.", ".ln.");
    let name = name.replace(".att.", ".time_mix_").replace(".ffn.", ".channel_mix_");
    if name.ends_with(".weight") || name.ends_with(".bias") { name } else { format!("{name}.weight") }
}
