//! The meaning of a tensor's name in an adapter file.

use std::collections::HashMap;
use wgoose_graph::{LayerWeight, ModelShape, Weight};

/// What a tensor is to the module it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// `A` of a LoRA.
    A,
    /// `B` of a LoRA.
    B,
    /// What `A` of a PiSSA was at first.
    InitialA,
    /// What `B` of a PiSSA was at first.
    InitialB,
    /// A block of MiSS, or several of Bat, one for `r` columns each.
    Shards,
    /// The same, one for `r` rows each.
    ShardsByRows,
}

/// How names end, and what they are: RWKV-PEFT's (`rwkvt/peft/rwkvLinear.py` and, of earlier versions, `src/model.py`)
/// and those of Hugging Face's `peft` (`tuners/lora/layer.py`, `tuners/miss/layer.py`).
const PARTS: [(&str, Part); 13] = [
    (".lora_A", Part::A),
    (".lora_A.weight", Part::A),
    (".lora_A.default.weight", Part::A),
    (".lora_B", Part::B),
    (".lora_B.weight", Part::B),
    (".lora_B.default.weight", Part::B),
    (".init_lora_A", Part::InitialA),
    (".init_lora_B", Part::InitialB),
    (".bone", Part::Shards),
    (".disha", Part::Shards),
    (".miss", Part::Shards),
    (".bone_block", Part::ShardsByRows),
    (".miss_block", Part::ShardsByRows),
];

/// What names contain that are of no kind that can be merged, and what they are.
const REFUSED: [(&str, &str); 9] = [
    ("time_state", "a tuned initial state: save it as a file of its own"),
    (".lora_M", "DoRA, which is not merged here"),
    ("lora_magnitude_vector", "DoRA, which is not merged here"),
    (".lora_E", "AdaLoRA, which is not merged here"),
    ("lora_embedding_", "a LoRA of the embedding, which is not merged here"),
    ("prompt_embeddings", "a prefix of the prompt, no change of weights"),
    (".hada_", "LoHa, which is not merged here"),
    (".lokr_", "LoKr, which is not merged here"),
    ("ia3_", "IA3, which is not merged here"),
];

/// What modules around the model put before the names of all tensors.
const WRAPPERS: [&str; 5] = ["base_model.model.", "_orig_mod.", "module.", "model.", "rwkv."];

/// A weight of the model, or one row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) weight: Weight,
    /// The row, where the authors' checkpoints have a tensor for each.
    pub(super) row: Option<usize>,
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It changes a matrix.
    Part(Weight, Part),
    /// It takes the place of a weight.
    Whole(Target),
    /// The value residual of layer 0, which no model has: the authors' checkpoints have tensors for it all the same.
    Unused,
    /// It belongs to another model: this one has no such weight.
    OtherModel,
    /// It cannot be merged, and why.
    Refused(&'static str),
}

/// The weights of a model by the names that its authors' checkpoints have for them.
pub(super) struct Targets(HashMap<String, Target>);

impl Targets {
    pub(super) fn of(shape: &ModelShape) -> Self {
        let mut targets = HashMap::new();
        for weight in Weight::all(shape) {
            if let Weight::Layer(layer, LayerWeight::AttMix) = weight {
                let mixes = "rwkvag".chars().enumerate();
                targets.extend(
                    mixes.map(|(row, mix)| (format!("blocks.{layer}.att.x_{mix}"), Target { weight, row: Some(row) })),
                );
            } else {
                targets.insert(weight.to_string(), Target { weight, row: None });
            }
        }
        Targets(targets)
    }

    /// What the tensor of that name is for.
    pub(super) fn purpose(&self, name: &str) -> Purpose {
        let name = unwrapped(name);
        if let Some((_, why)) = REFUSED.iter().find(|(part, _)| name.contains(part)) {
            return Purpose::Refused(why);
        }
        if let Some(target) = self.0.get(name) {
            return Purpose::Whole(*target);
        }
        if ["v0", "v1", "v2"].iter().any(|unused| name.strip_prefix("blocks.0.att.") == Some(unused)) {
            return Purpose::Unused;
        }
        let module = PARTS.iter().find_map(|(suffix, part)| Some((name.strip_suffix(suffix)?, *part)));
        let Some((module, part)) = module else {
            let is_weight = name == "emb.weight" || name == "head.weight" || name.starts_with("blocks.");
            return match is_weight {
                true => Purpose::OtherModel,
                false => Purpose::Refused("neither LoRA, PiSSA, DiSHA (Bone) nor MiSS, and no weight of the model"),
            };
        };
        match self.0.get(&format!("{module}.weight")) {
            Some(target) => Purpose::Part(target.weight, part),
            None => Purpose::OtherModel,
        }
    }
}

fn unwrapped(mut name: &str) -> &str {
    while let Some(inner) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = inner;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::LoraRanks;

    #[test]
    fn tensor_names_give_their_purpose() {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
        let targets = Targets::of(&ModelShape {
            layers: 2,
            width: 64,
            ffn: 96,
            head_size: 64,
            vocab: 260,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        });
        let key = Weight::Layer(1, LayerWeight::Key);
        let mixes = Target { weight: Weight::Layer(0, LayerWeight::AttMix), row: Some(4) };
        for (name, purpose) in [
            ("blocks.1.att.key.lora_A", Purpose::Part(key, Part::A)),
            ("base_model.model.blocks.1.att.key.lora_B.weight", Purpose::Part(key, Part::B)),
            ("base_model.model.blocks.1.att.key.lora_B.default.weight", Purpose::Part(key, Part::B)),
            ("model.blocks.1.att.key.init_lora_A", Purpose::Part(key, Part::InitialA)),
            ("_orig_mod.module.blocks.1.att.key.disha", Purpose::Part(key, Part::Shards)),
            ("base_model.model.blocks.1.att.key.miss_block", Purpose::Part(key, Part::ShardsByRows)),
            ("head.lora_A", Purpose::Part(Weight::Head, Part::A)),
            ("blocks.0.att.x_a", Purpose::Whole(mixes)),
            ("model.ln_out.bias", Purpose::Whole(Target { weight: Weight::LnOutBias, row: None })),
            ("blocks.0.att.v1", Purpose::Unused),
            ("blocks.2.att.key.lora_A", Purpose::OtherModel),
            ("blocks.0.att.gate.lora_A", Purpose::OtherModel),
            ("model.layers.0.self_attn.q_proj.lora_A.weight", Purpose::OtherModel),
            ("blocks.0.att.time_faaaa", Purpose::OtherModel),
        ] {
            assert_eq!(targets.purpose(name), purpose, "{name}");
        }
        for (name, says) in [
            ("blocks.0.att.time_state", "a file of its own"),
            ("blocks.1.att.key.lora_M", "DoRA"),
            ("classifier.bias", "no weight of the model"),
        ] {
            let purpose = targets.purpose(name);
            assert!(matches!(purpose, Purpose::Refused(why) if why.contains(says)), "{name}: {purpose:?}");
        }
    }
}
