//! The weights of an RWKV-7 model under one naming, whatever file they come from.

use crate::ModelShape;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One tensor of the model. Its shape is `[rows, cols]`, row major, a matrix being `[out, in]`;
/// vectors have one row. [`fmt::Display`] writes the canonical (.pth) name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Weight {
    /// `[V, C]` token embedding.
    Embedding,
    /// `[1, C]` scale of the norm after the embedding; not where [`ModelShape::embedding_norm`] is false.
    Ln0Scale,
    /// `[1, C]` bias of the norm after the embedding; not where [`ModelShape::embedding_norm`] is false.
    Ln0Bias,
    /// A tensor of layer `.0`.
    Layer(u32, LayerWeight),
    /// `[1, C]` scale of the last norm.
    LnOutScale,
    /// `[1, C]` bias of the last norm.
    LnOutBias,
    /// `[V, C]` output head.
    Head,
}

/// One tensor of a layer; names of the formulas in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LayerWeight {
    /// `[1, C]` scale of the norm before the time mix.
    Ln1Scale,
    /// `[1, C]` bias of the norm before the time mix.
    Ln1Bias,
    /// `[6, C]` token-shift mixes in the order r, w, k, v, a, g (`x_r` ... `x_g`).
    AttMix,
    /// `[C, C]` receptance matrix.
    Receptance,
    /// `[C, C]` key matrix.
    Key,
    /// `[C, C]` value matrix.
    Value,
    /// `[1, C]` decay bias (`w0`).
    DecayBias,
    /// `[rank, C]` decay adapter, first half (`w1`).
    DecayDown,
    /// `[C, rank]` decay adapter, second half (`w2`).
    DecayUp,
    /// `[1, C]` in-context learning rate bias (`a0`).
    IclrBias,
    /// `[rank, C]` (`a1`).
    IclrDown,
    /// `[C, rank]` (`a2`).
    IclrUp,
    /// `[1, C]` value residual bias (`v0`); not in layer 0.
    ValueBias,
    /// `[rank, C]` (`v1`); not in layer 0.
    ValueDown,
    /// `[C, rank]` (`v2`); not in layer 0.
    ValueUp,
    /// `[rank, C]` gate adapter, first half (`g1`).
    GateDown,
    /// `[C, rank]` gate adapter, second half (`g2`).
    GateUp,
    /// `[1, C]` removal key scale (`k_k`).
    RemovalKey,
    /// `[1, C]` how far the learning rate scales the key (`k_a`).
    KeyIclr,
    /// `[1, C]` bonus of the current token, heads concatenated (`r_k`).
    Bonus,
    /// `[1, C]` scale of the per-head norm (`ln_x`).
    LnXScale,
    /// `[1, C]` bias of the per-head norm (`ln_x`).
    LnXBias,
    /// `[C, C]` output matrix of the time mix.
    Output,
    /// `[1, C]` scale of the norm before the channel mix.
    Ln2Scale,
    /// `[1, C]` bias of the norm before the channel mix.
    Ln2Bias,
    /// `[1, C]` token-shift mix of the channel mix (`ffn.x_k`).
    FfnMix,
    /// `[F, C]` key matrix of the channel mix.
    FfnKey,
    /// `[V, n n]` n x n matrix of each token (`ffn.s_emb`); RWKV-7a only, as the four that follow.
    DeepEmbedTable,
    /// `[n n, C]` what the token's embedding adds to its matrix (`ffn.s_emb_x`).
    DeepEmbedResidual,
    /// `[n, C]` first half of DeepEmbed's adapter (`ffn.s1`).
    DeepEmbedDown,
    /// `[F, n]` second half of DeepEmbed's adapter (`ffn.s2`).
    DeepEmbedUp,
    /// `[1, F]` bias of the gain that DeepEmbed makes (`ffn.s0`).
    DeepEmbedBias,
    /// `[C, F]` value matrix of the channel mix.
    FfnValue,
}

impl LayerWeight {
    /// Every tensor of a layer, in the order the forward pass first needs it.
    const ALL: [LayerWeight; 33] = [
        LayerWeight::Ln1Scale,
        LayerWeight::Ln1Bias,
        LayerWeight::AttMix,
        LayerWeight::Receptance,
        LayerWeight::Key,
        LayerWeight::Value,
        LayerWeight::DecayBias,
        LayerWeight::DecayDown,
        LayerWeight::DecayUp,
        LayerWeight::IclrBias,
        LayerWeight::IclrDown,
        LayerWeight::IclrUp,
        LayerWeight::ValueBias,
        LayerWeight::ValueDown,
        LayerWeight::ValueUp,
        LayerWeight::GateDown,
        LayerWeight::GateUp,
        LayerWeight::RemovalKey,
        LayerWeight::KeyIclr,
        LayerWeight::Bonus,
        LayerWeight::LnXScale,
        LayerWeight::LnXBias,
        LayerWeight::Output,
        LayerWeight::Ln2Scale,
        LayerWeight::Ln2Bias,
        LayerWeight::FfnMix,
        LayerWeight::FfnKey,
        LayerWeight::DeepEmbedTable,
        LayerWeight::DeepEmbedResidual,
        LayerWeight::DeepEmbedDown,
        LayerWeight::DeepEmbedUp,
        LayerWeight::DeepEmbedBias,
        LayerWeight::FfnValue,
    ];

    /// The tensors of that layer of a model, in the order the forward pass first needs them.
    pub fn of_layer(model: &ModelShape, layer: u32) -> impl Iterator<Item = LayerWeight> + use<> {
        let has_deep_embed = model.deep_embed.is_some();
        LayerWeight::ALL
            .into_iter()
            .filter(move |w| layer > 0 || !w.absent_in_first_layer())
            .filter(move |w| has_deep_embed || !w.is_deep_embed())
    }

    /// Whether it is a tensor of DeepEmbed, which RWKV-7a alone has.
    pub const fn is_deep_embed(self) -> bool {
        use LayerWeight::{DeepEmbedBias, DeepEmbedDown, DeepEmbedResidual, DeepEmbedTable, DeepEmbedUp};
        matches!(self, DeepEmbedTable | DeepEmbedResidual | DeepEmbedDown | DeepEmbedUp | DeepEmbedBias)
    }

    /// Whether layer 0 has no use for it: the value residual blends towards layer 0's own values.
    pub const fn absent_in_first_layer(self) -> bool {
        matches!(self, LayerWeight::ValueBias | LayerWeight::ValueDown | LayerWeight::ValueUp)
    }

    /// `[rows, cols]` for a model of that shape.
    pub(crate) const fn shape(self, m: &ModelShape) -> [u32; 2] {
        let c = m.width;
        let n = match m.deep_embed {
            Some(n) => n,
            None => 0,
        };
        match self {
            LayerWeight::AttMix => [6, c],
            LayerWeight::Receptance | LayerWeight::Key | LayerWeight::Value | LayerWeight::Output => [c, c],
            LayerWeight::DecayDown => [m.ranks.decay, c],
            LayerWeight::DecayUp => [c, m.ranks.decay],
            LayerWeight::IclrDown => [m.ranks.iclr, c],
            LayerWeight::IclrUp => [c, m.ranks.iclr],
            LayerWeight::ValueDown => [m.ranks.value, c],
            LayerWeight::ValueUp => [c, m.ranks.value],
            LayerWeight::GateDown => [m.ranks.gate, c],
            LayerWeight::GateUp => [c, m.ranks.gate],
            LayerWeight::FfnKey => [m.ffn, c],
            LayerWeight::FfnValue => [c, m.ffn],
            LayerWeight::DeepEmbedTable => [m.vocab, n * n],
            LayerWeight::DeepEmbedResidual => [n * n, c],
            LayerWeight::DeepEmbedDown => [n, c],
            LayerWeight::DeepEmbedUp => [m.ffn, n],
            LayerWeight::DeepEmbedBias => [1, m.ffn],
            _ => [1, c],
        }
    }

    /// What kind of tensor it is.
    pub const fn class(self) -> WeightClass {
        match self {
            LayerWeight::Receptance
            | LayerWeight::Key
            | LayerWeight::Value
            | LayerWeight::Output
            | LayerWeight::FfnKey
            | LayerWeight::FfnValue
            | LayerWeight::DeepEmbedTable
            | LayerWeight::DeepEmbedResidual => WeightClass::Matrix,
            LayerWeight::DecayDown
            | LayerWeight::DecayUp
            | LayerWeight::IclrDown
            | LayerWeight::IclrUp
            | LayerWeight::ValueDown
            | LayerWeight::ValueUp
            | LayerWeight::GateDown
            | LayerWeight::GateUp
            | LayerWeight::DeepEmbedDown
            | LayerWeight::DeepEmbedUp => WeightClass::Adapter,
            _ => WeightClass::Vector,
        }
    }

    const fn canonical(self) -> &'static str {
        match self {
            LayerWeight::Ln1Scale => "ln1.weight",
            LayerWeight::Ln1Bias => "ln1.bias",
            LayerWeight::AttMix => "att.x_rwkvag",
            LayerWeight::Receptance => "att.receptance.weight",
            LayerWeight::Key => "att.key.weight",
            LayerWeight::Value => "att.value.weight",
            LayerWeight::DecayBias => "att.w0",
            LayerWeight::DecayDown => "att.w1",
            LayerWeight::DecayUp => "att.w2",
            LayerWeight::IclrBias => "att.a0",
            LayerWeight::IclrDown => "att.a1",
            LayerWeight::IclrUp => "att.a2",
            LayerWeight::ValueBias => "att.v0",
            LayerWeight::ValueDown => "att.v1",
            LayerWeight::ValueUp => "att.v2",
            LayerWeight::GateDown => "att.g1",
            LayerWeight::GateUp => "att.g2",
            LayerWeight::RemovalKey => "att.k_k",
            LayerWeight::KeyIclr => "att.k_a",
            LayerWeight::Bonus => "att.r_k",
            LayerWeight::LnXScale => "att.ln_x.weight",
            LayerWeight::LnXBias => "att.ln_x.bias",
            LayerWeight::Output => "att.output.weight",
            LayerWeight::Ln2Scale => "ln2.weight",
            LayerWeight::Ln2Bias => "ln2.bias",
            LayerWeight::FfnMix => "ffn.x_k",
            LayerWeight::FfnKey => "ffn.key.weight",
            LayerWeight::FfnValue => "ffn.value.weight",
            LayerWeight::DeepEmbedTable => "ffn.s_emb.weight",
            LayerWeight::DeepEmbedResidual => "ffn.s_emb_x.weight",
            LayerWeight::DeepEmbedDown => "ffn.s1",
            LayerWeight::DeepEmbedUp => "ffn.s2",
            LayerWeight::DeepEmbedBias => "ffn.s0",
        }
    }
}

/// What kind of tensor a weight is; decides which formats it may be stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightClass {
    /// A large matrix: any format.
    Matrix,
    /// A half of a low-rank adapter: F32, F16 or BF16.
    Adapter,
    /// Norms, biases, mixes: F32, F16 or BF16; kernels read them as F32.
    Vector,
}

impl Weight {
    /// Every weight of the model in the order the forward pass first needs it.
    pub fn all(shape: &ModelShape) -> impl Iterator<Item = Weight> {
        let of_layer = |i| LayerWeight::of_layer(shape, i).map(move |w| Weight::Layer(i, w));
        let layers = (0..shape.layers).flat_map(of_layer);
        let norm = [Weight::Ln0Scale, Weight::Ln0Bias].into_iter().filter(|_| shape.embedding_norm);
        let after = [Weight::LnOutScale, Weight::LnOutBias];
        let head = Some(Weight::Head).filter(|_| shape.output_head);
        std::iter::once(Weight::Embedding).chain(norm).chain(layers).chain(after).chain(head)
    }

    /// `[rows, cols]` for a model of that shape.
    pub const fn shape(self, m: &ModelShape) -> [u32; 2] {
        match self {
            Weight::Embedding | Weight::Head => [m.vocab, m.width],
            Weight::Layer(_, w) => w.shape(m),
            _ => [1, m.width],
        }
    }

    /// Whether it is a table with a row for each token, of which a pass reads the rows of its tokens.
    pub const fn is_token_table(self) -> bool {
        matches!(self, Weight::Embedding | Weight::Layer(_, LayerWeight::DeepEmbedTable))
    }

    /// What kind of tensor it is.
    pub const fn class(self) -> WeightClass {
        match self {
            Weight::Embedding | Weight::Head => WeightClass::Matrix,
            Weight::Layer(_, w) => w.class(),
            _ => WeightClass::Vector,
        }
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Embedding => f.write_str("emb.weight"),
            Weight::Ln0Scale => f.write_str("blocks.0.ln0.weight"),
            Weight::Ln0Bias => f.write_str("blocks.0.ln0.bias"),
            Weight::Layer(i, w) => write!(f, "blocks.{i}.{}", w.canonical()),
            Weight::LnOutScale => f.write_str("ln_out.weight"),
            Weight::LnOutBias => f.write_str("ln_out.bias"),
            Weight::Head => f.write_str("head.weight"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_distinct_names_and_unused_weights_are_skipped() {
        let shape = ModelShape::PRESETS[0].1;
        let all: Vec<_> = Weight::all(&shape).collect();
        assert_eq!(all.len(), 6 + 12 * 28 - 3);
        let names: std::collections::BTreeSet<_> = all.iter().map(Weight::to_string).collect();
        assert_eq!(names.len(), all.len());
        assert!(!names.contains("blocks.0.att.v1") && names.contains("blocks.1.att.v1"));
        let deep = ModelShape { deep_embed: Some(32), ..shape };
        let added: Vec<_> = Weight::all(&deep).filter(|weight| !all.contains(weight)).collect();
        assert_eq!(added.len(), 12 * 5);
        assert_eq!(added[0].to_string(), "blocks.0.ffn.s_emb.weight");
        assert_eq!(added[0].shape(&deep), [65536, 1024]);
    }

    #[test]
    fn parameters_of_the_smallest_model() {
        let shape = ModelShape::PRESETS[0].1;
        let n: u64 = Weight::all(&shape).map(|w| w.shape(&shape)).map(|[r, c]| u64::from(r) * u64::from(c)).sum();
        assert!((185_000_000..195_000_000).contains(&n), "{n}");
    }
}
