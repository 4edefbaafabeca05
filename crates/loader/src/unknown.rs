//! Tensors of a file that no op reads: a model that has some is another one than what would run.

use crate::contents::Directory;
use crate::embedding_heads::{EmbeddingHead, heads_in};
use crate::names::Naming;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use wgoose_graph::{LayerWeight, ModelShape, Weight};

/// Tensors of a file that no op reads, by what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownTensors(BTreeMap<Meaning, Vec<String>>);

/// What tensors are that no op reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// An attention by suffix automaton.
    Rwkv8,
    /// An attention beside the time mix.
    Rwkv7b,
    /// A factor of the channel mix by token.
    Rwkv7a,
    /// What fine-tuning learned beside the weights.
    Adapter,
    /// An initial state.
    State,
    /// A bias where RWKV-7 has none.
    Bias,
    /// Scales or zero points of weights.
    Scale,
    /// What training goes on with.
    Optimizer,
    /// An image encoder.
    Vision,
    /// Nobody knows.
    Other,
}

impl Meaning {
    /// By the name of a tensor.
    fn of(name: &str) -> Self {
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        match () {
            () if has(&[".rosa"]) => Meaning::Rwkv8,
            () if has(&[".qkv."]) => Meaning::Rwkv7b,
            () if has(&[".ffn.s_emb", ".ffn.s0", ".ffn.s1", ".ffn.s2"]) => Meaning::Rwkv7a,
            () if has(&["lora_A", "lora_B", "lora_a", "lora_b", ".bone", ".disha", ".miss"]) => Meaning::Adapter,
            () if has(&["time_state"]) => Meaning::State,
            () if has(&["_scale", "scale_inv", ".scales", "qzeros", "qweight", "absmax", "quant_"]) => Meaning::Scale,
            () if has(&["exp_avg", "optimizer", "momentum"]) => Meaning::Optimizer,
            () if name.starts_with("vit.") || name.starts_with("proj.") => Meaning::Vision,
            () if name.ends_with(".bias") => Meaning::Bias,
            () => Meaning::Other,
        }
    }

    /// What they are, and what to do.
    fn text(self) -> &'static str {
        match self {
            Meaning::Rwkv8 => "ROSA of RWKV-8, a model that does not run here",
            Meaning::Rwkv7b => "attention of RWKV-7b, a model that does not run here",
            Meaning::Rwkv7a => "DeepEmbed of RWKV-7a, whose table 'blocks.0.ffn.s_emb.weight' is missing",
            Meaning::Adapter => {
                "halves of an adapter (LoRA, Bone, MiSS): save them as a file of their own, which --adapter merges"
            }
            Meaning::State => "a tuned initial state: save it as a file of its own",
            Meaning::Bias => "biases, of which RWKV-7 has none there",
            Meaning::Scale => "scales of quantised weights: take the unquantised file",
            Meaning::Optimizer => "an optimizer's: take the checkpoint of the weights alone",
            Meaning::Vision => "an image encoder, without which texts are the same",
            Meaning::Other => "unknown",
        }
    }
}

/// Names of each kind that are printed.
const NAMED: usize = 2;

impl UnknownTensors {
    /// Those of a file whose weights have such names. Of layer 0, which has no value residual, it may be there:
    /// llama.cpp's converter writes one.
    pub(crate) fn of(directory: &Directory, naming: &Naming, shape: &ModelShape) -> Self {
        let unused = [LayerWeight::ValueBias, LayerWeight::ValueDown, LayerWeight::ValueUp];
        let unused = unused.map(|weight| Weight::Layer(0, weight));
        let weights = Weight::all(shape).chain(unused).flat_map(|weight| naming.names(weight).as_slice().to_vec());
        let known: HashSet<String> = weights.chain(heads_in(directory).flat_map(EmbeddingHead::tensors)).collect();
        let mut unknown: BTreeMap<Meaning, Vec<String>> = BTreeMap::new();
        for name in directory.names().filter(|name| !known.contains(*name)) {
            unknown.entry(Meaning::of(name)).or_default().push(name.to_owned());
        }
        unknown.values_mut().for_each(|names| names.sort());
        UnknownTensors(unknown)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Their names, those of one kind together.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().flatten().map(String::as_str)
    }
}

/// `1 tensor: 'blocks.0.att.x_q' (unknown)`
impl fmt::Display for UnknownTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.len();
        write!(f, "{count} {}", if count == 1 { "tensor" } else { "tensors" })?;
        for (i, (meaning, names)) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { ", " })?;
            if names.len() > NAMED {
                write!(f, "{} such as ", names.len())?;
            }
            let quoted: Vec<String> = names.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
            write!(f, "{} ({})", quoted.join(" and "), meaning.text())?;
        }
        Ok(())
    }
}
