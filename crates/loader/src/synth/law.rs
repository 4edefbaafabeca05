//! How each weight is drawn.
//!
//! The aim is a stream of unit size that every tensor bends: matrices keep the size of what they are fed, the two
//! matrices that write to the residual stream are scaled down by the root of their number, biases and mixes are
//! spread over the range that trained models use.

use super::noise::Streams;
use super::options::SynthOptions;
use wgoose_graph::{LayerWeight, ModelShape, Weight};

/// Hot models: `ffn.key` times this, `ffn.value` divided by its square. A power of two, so nothing else changes.
const HOT: f32 = 32.0;

/// Models with many zeros in the channel mix: the mean of `ln2.bias`.
const RAISED: f32 = 0.5;

/// Deviation of `ffn.key` times the root of the width: wide enough that squares in a hot model come near the limit of f16
/// and stay below it.
const KEY: f32 = 1.25;

/// The mean of `ffn.key` at which a share of its products is negative. Norms leave a sum of 0, so that a row of width C that
/// was raised by [`RAISED`] sums up to `RAISED C`, and a mean m of the weights adds `m RAISED C` to every product. Without it
/// a product is normal with deviation `KEY sqrt(q)`, q being the mean square of what is multiplied: two neighbours of unit
/// size mixed by u and 1 - u, u uniform from 0.1 to 0.9, have 0.61, and the raise adds its square.
fn lowered(zeros: f32, width: u32) -> f32 {
    let q = 0.61 + RAISED * RAISED;
    // The quantile of the normal distribution (Tukey's lambda of shape 0.135, right to 0.01).
    let quantile = (zeros.powf(0.135) - (1.0 - zeros).powf(0.135)) / 0.1975;
    -quantile * KEY * q.sqrt() / (RAISED * width as f32)
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    Normal { mean: f32, deviation: f32 },
    Uniform { low: f32, high: f32 },
}

/// The numbers of one weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    streams: Streams,
    law: Law,
}

impl Source {
    /// The numbers of `weight` in rows of `cols`.
    pub(super) fn new(options: &SynthOptions, weight: Weight, cols: u32) -> Self {
        let mut law = law(weight, &options.shape, cols);
        if let (true, Weight::Layer(_, layer), Law::Normal { deviation, .. }) = (options.hot, weight, &mut law) {
            match layer {
                LayerWeight::FfnKey => *deviation *= HOT,
                LayerWeight::FfnValue => *deviation /= HOT * HOT,
                _ => {}
            }
        }
        if let (Some(zeros), Weight::Layer(_, layer), Law::Normal { mean, .. }) = (options.ffn_zeros, weight, &mut law)
        {
            match layer {
                LayerWeight::Ln2Bias => *mean = RAISED,
                LayerWeight::FfnKey => *mean = lowered(zeros, cols) * if options.hot { HOT } else { 1.0 },
                _ => {}
            }
        }
        Source { streams: Streams::new(options.seed, &weight.to_string()), law }
    }

    /// Fills one row.
    pub(super) fn row(&self, row: u32, out: &mut [f32]) {
        let mut stream = self.streams.row(row);
        match self.law {
            Law::Normal { mean, deviation } => {
                for x in out {
                    *x = mean + deviation * stream.normal();
                }
            }
            Law::Uniform { low, high } => {
                for x in out {
                    *x = low + (high - low) * stream.uniform();
                }
            }
        }
    }
}

fn law(weight: Weight, shape: &ModelShape, cols: u32) -> Law {
    let normal = |mean, deviation| Law::Normal { mean, deviation };
    let uniform = |low, high| Law::Uniform { low, high };
    // What a matrix row needs to keep the size of a vector of `cols` numbers.
    let keep = (cols as f32).sqrt().recip();
    // Two matrices per layer write to the residual stream.
    let share = (2.0 * shape.layers as f32).sqrt().recip();
    // What a token's matrix of DeepEmbed needs to keep the size of a row of n numbers.
    let keep_row = (shape.deep_embed.unwrap_or(1) as f32).sqrt().recip();
    let layer = match weight {
        Weight::Embedding => return normal(0.0, 0.1),
        Weight::Ln0Scale | Weight::LnOutScale => return normal(1.0, 0.1),
        Weight::Ln0Bias | Weight::LnOutBias => return normal(0.0, 0.1),
        // Logits spread by about 3: the best token stands clear of the next.
        Weight::Head => return normal(0.0, 3.0 * keep),
        Weight::Layer(_, layer) => layer,
    };
    match layer {
        LayerWeight::Ln1Scale | LayerWeight::Ln2Scale | LayerWeight::LnXScale => normal(1.0, 0.1),
        LayerWeight::Ln1Bias | LayerWeight::Ln2Bias | LayerWeight::LnXBias => normal(0.0, 0.1),
        LayerWeight::AttMix | LayerWeight::FfnMix => uniform(0.1, 0.9),
        LayerWeight::Receptance | LayerWeight::Key | LayerWeight::Value => normal(0.0, keep),
        // sigmoid(w0) from 0.0025 to 0.73: half-lives from about 450 tokens to 1.6.
        LayerWeight::DecayBias => uniform(-6.0, 1.0),
        LayerWeight::IclrBias | LayerWeight::ValueBias => uniform(-1.0, 1.0),
        LayerWeight::DecayDown | LayerWeight::IclrDown | LayerWeight::ValueDown | LayerWeight::GateDown => {
            normal(0.0, keep)
        }
        LayerWeight::IclrUp | LayerWeight::ValueUp => normal(0.0, 0.5 * keep),
        // The decay forgives more than the others, and is fed numbers below 1 (a tanh).
        LayerWeight::DecayUp => normal(0.0, 1.5 * keep),
        // The gate is fed sigmoids, about half the size of what the others are fed.
        LayerWeight::GateUp => normal(0.0, 2.0 * keep),
        LayerWeight::RemovalKey | LayerWeight::KeyIclr => normal(1.0, 0.2),
        LayerWeight::Bonus => normal(0.0, 0.1),
        LayerWeight::Output => normal(0.0, share * keep),
        LayerWeight::FfnKey => normal(0.0, KEY * keep),
        LayerWeight::FfnValue => normal(0.0, share * keep),
        // Table and embedding make half of a matrix each; gains are spread about 1 by 0.5, and some are negative.
        LayerWeight::DeepEmbedTable => normal(0.0, 0.7 * keep_row),
        LayerWeight::DeepEmbedResidual => normal(0.0, 0.7 * keep_row * keep),
        LayerWeight::DeepEmbedDown => normal(0.0, keep),
        LayerWeight::DeepEmbedUp => normal(0.0, 0.5 * keep),
        LayerWeight::DeepEmbedBias => normal(1.0, 0.2),
    }
}
