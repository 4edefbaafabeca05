//! Formats that were chosen weight by weight.

use std::collections::BTreeMap;
use wgoose_graph::{Format, Weight};

/// Formats that were chosen weight by weight, in place of a [`Mix`](super::Mix)'s, and what was measured of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenFormats {
    /// Formats; the mix has those of weights that are not here.
    pub formats: BTreeMap<Weight, Format>,
    /// Mean Kullback-Leibler divergence from the source, in nats a token. The file says so: `wgoose.quantize.kl_divergence`.
    pub kl: f32,
}
