//! The sizes of an RWKV-7 model: everything the builder needs to know, nothing about files.

use serde::{Deserialize, Serialize};

/// Ranks of the four low-rank adapters. Always read from the model, never derived from the width:
/// the published formulae disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoraRanks {
    /// `w1`, `w2`: the decay.
    pub decay: u32,
    /// `a1`, `a2`: the in-context learning rate.
    pub iclr: u32,
    /// `v1`, `v2`: the value residual (unused in layer 0).
    pub value: u32,
    /// `g1`, `g2`: the output gate.
    pub gate: u32,
}

/// The sizes of an RWKV-7 model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelShape {
    /// Number of layers.
    pub layers: u32,
    /// Width C of the residual stream; a multiple of `head_size`.
    pub width: u32,
    /// Width F of the channel mix, usually 4 C.
    pub ffn: u32,
    /// Channels per head, 64 in every published model.
    pub head_size: u32,
    /// Rows of the embedding and of the output head.
    pub vocab: u32,
    /// Ranks of the low-rank adapters.
    pub ranks: LoraRanks,
    /// Size n of the n x n matrix that DeepEmbed has for each token, 32 in every published RWKV-7a; `None`: RWKV-7,
    /// which has no DeepEmbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deep_embed: Option<u32>,
    /// Whether a layer norm follows the embedding (`ln0`). Files say it only where there is none: it is folded into the
    /// rows of the embedding.
    #[serde(default = "has_it", skip_serializing_if = "Clone::clone")]
    pub embedding_norm: bool,
    /// Whether there is an output head, which makes logits of hidden states. Files say it only where there is none, in
    /// models that only embed texts.
    #[serde(default = "has_it", skip_serializing_if = "Clone::clone")]
    pub output_head: bool,
}

/// What a shape says of a part that is not mentioned.
const fn has_it() -> bool {
    true
}

/// Why a set of sizes is no RWKV-7 model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A size is zero.
    #[error("{0} is 0: a model has at least one")]
    Zero(&'static str),
    /// The width does not divide into heads.
    #[error("width {width} is no multiple of the head size {head_size}")]
    Heads {
        /// Width C.
        width: u32,
        /// Channels per head.
        head_size: u32,
    },
    /// The head size cannot be run.
    #[error("head size {0} is not one of 16, 32, 64, 128")]
    HeadSize(u32),
    /// A size is beyond anything that can be addressed.
    #[error("{what} {got} is larger than {limit}")]
    TooLarge {
        /// Which size.
        what: &'static str,
        /// Its value.
        got: u32,
        /// The largest value accepted.
        limit: u32,
    },
}

impl ModelShape {
    /// The published sizes: 0.1B, 0.4B, 1.5B, 2.9B, 7.2B, 13.3B (source: the checkpoints' own tensors; of 13.3B the
    /// ranks in configurations of G1f).
    pub const PRESETS: [(&'static str, ModelShape); 6] = [
        ("0.1B", ModelShape::published(12, 768, [64, 64, 32, 128])),
        ("0.4B", ModelShape::published(24, 1024, [64, 64, 32, 128])),
        ("1.5B", ModelShape::published(24, 2048, [96, 96, 64, 256])),
        ("2.9B", ModelShape::published(32, 2560, [96, 96, 64, 320])),
        ("7.2B", ModelShape::published(32, 4096, [128, 128, 96, 480])),
        ("13.3B", ModelShape::published(61, 4096, [192, 192, 128, 384])),
    ];

    const fn published(layers: u32, width: u32, [decay, iclr, value, gate]: [u32; 4]) -> Self {
        let ranks = LoraRanks { decay, iclr, value, gate };
        ModelShape {
            layers,
            width,
            ffn: 4 * width,
            head_size: 64,
            vocab: 65536,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        }
    }

    /// A size of one's own: heads of 64 channels, a channel mix of four widths, 65,536 tokens, and the ranks of 0.1B.
    pub fn small(layers: u32, width: u32) -> Self {
        let ffn = width.saturating_mul(4);
        ModelShape { layers, width, ffn, ..Self::published(0, 0, [64, 64, 32, 128]) }
    }

    /// The published size of that name (`"0.1B"` ... `"13.3B"`, any case).
    pub fn preset(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, s)| *s)
    }

    /// The architecture, as its authors name it.
    pub const fn architecture(&self) -> &'static str {
        match self.deep_embed {
            None => "RWKV-7",
            Some(_) => "RWKV-7a",
        }
    }

    /// Number of heads H = C / head size.
    pub const fn heads(&self) -> u32 {
        self.width / self.head_size
    }

    /// Floats of recurrent state per sequence: per layer two shift vectors of C and H matrices of N x N.
    pub const fn state_len(&self) -> usize {
        self.layers as usize * (2 * self.width as usize + self.width as usize * self.head_size as usize)
    }

    /// Checks that the sizes can describe a model at all.
    ///
    /// # Errors
    /// The first size that is zero, indivisible or absurdly large.
    pub fn validate(&self) -> Result<(), ShapeError> {
        // Bounds far above any model, low enough that products of two sizes fit in 64 bits and indices in 32.
        let sizes = [
            ("layers", self.layers, 4096),
            ("width", self.width, 1 << 17),
            ("ffn", self.ffn, 1 << 20),
            ("head_size", self.head_size, 128),
            ("vocab", self.vocab, 1 << 22),
            ("decay rank", self.ranks.decay, 1 << 14),
            ("iclr rank", self.ranks.iclr, 1 << 14),
            ("value rank", self.ranks.value, 1 << 14),
            ("gate rank", self.ranks.gate, 1 << 14),
        ];
        let deep_embed = self.deep_embed.map(|size| ("DeepEmbed size", size, 1 << 8));
        for (what, got, limit) in sizes.into_iter().chain(deep_embed) {
            if got == 0 {
                return Err(ShapeError::Zero(what));
            }
            if got > limit {
                return Err(ShapeError::TooLarge { what, got, limit });
            }
        }
        if ![16, 32, 64, 128].contains(&self.head_size) {
            return Err(ShapeError::HeadSize(self.head_size));
        }
        if !self.width.is_multiple_of(self.head_size) {
            return Err(ShapeError::Heads { width: self.width, head_size: self.head_size });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        for (name, shape) in ModelShape::PRESETS {
            assert_eq!(shape.validate(), Ok(()), "{name}");
        }
        let shape = ModelShape::preset("2.9b").unwrap();
        assert_eq!(shape.state_len() * 4, 32 * (2 * 2560 + 40 * 4096) * 4);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let mut shape = ModelShape::PRESETS[0].1;
        shape.width = 100;
        assert!(matches!(shape.validate(), Err(ShapeError::Heads { .. })));
        shape.layers = 0;
        assert_eq!(shape.validate(), Err(ShapeError::Zero("layers")));
        let shape = ModelShape { deep_embed: Some(0), ..ModelShape::PRESETS[0].1 };
        assert_eq!(shape.validate(), Err(ShapeError::Zero("DeepEmbed size")));
    }
}
