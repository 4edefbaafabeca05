//! The end of a pass: logits, or hidden states on the way to them.

use crate::ModelShape;

/// Where in the model a hidden state is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// After the last norm (`ln_out`): what the output head would read.
    #[default]
    Final,
    /// The residual stream after that layer, from 0. Layers above it are not computed.
    Layer(u32),
}

impl Level {
    /// How many layers must be computed to get there.
    pub const fn depth(self, model: &ModelShape) -> u32 {
        match self {
            Level::Final => model.layers,
            Level::Layer(layer) => layer.saturating_add(1),
        }
    }
}

/// What a pass ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The logits of the requested rows, `[R, V]`.
    #[default]
    Logits,
    /// The hidden states of the requested rows, `[R, C]`.
    Hidden(Level),
    /// For each segment, the sum of the hidden states of all its tokens, `[S, C]`.
    HiddenSum(Level),
}

impl Target {
    /// The layers that are computed, from 0 up.
    pub const fn depth(self, model: &ModelShape) -> u32 {
        match self {
            Target::Logits => model.layers,
            Target::Hidden(level) | Target::HiddenSum(level) => level.depth(model),
        }
    }

    /// Columns of the result.
    pub const fn cols(self, model: &ModelShape) -> u32 {
        match self {
            Target::Logits => model.vocab,
            Target::Hidden(_) | Target::HiddenSum(_) => model.width,
        }
    }
}
