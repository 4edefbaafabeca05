//! How a plan is driven: what a caller of the engine decides, and no plan can say.

use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// How a plan is driven; by default as the engine does it for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Drive {
    /// Who chooses the tokens that are decoded.
    pub chooser: Chooser,
    /// Steps of decoding that the device is given before the token of the first is known. 1 waits for each.
    pub in_flight: Option<NonZeroUsize>,
    /// Submissions into which the layers of a pass are divided, once its kernels are compiled and its weights there.
    /// Decoding on the device has one submission for each step.
    pub submissions: Option<NonZeroUsize>,
    /// Whether several sequences are read together.
    pub sequences: Sequences,
    /// Where the weights are when a sample begins.
    pub weights: WeightsAtStart,
}

/// Who chooses tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chooser {
    /// The device: their numbers come back.
    #[default]
    Device,
    /// The host, the likeliest: all logits come back, and the number goes there.
    Host,
}

/// How several sequences are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sequences {
    /// In passes that have tokens of all.
    #[default]
    Together,
    /// One after another.
    InTurns,
}

/// Where the weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightsAtStart {
    /// On the device.
    #[default]
    There,
    /// In the file. Each goes up when it is first used.
    Lazy,
    /// In the file. All go up before the pass begins.
    Eager,
}

impl Drive {
    /// Whether it is that of the engine.
    pub fn is_usual(&self) -> bool {
        *self == Drive::default()
    }
}
