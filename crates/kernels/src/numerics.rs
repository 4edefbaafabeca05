//! What a variant computes with. Whoever runs a plan wants to know whether its numbers are those of f32.

use crate::Site;
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_graph::{Activation, Op};

/// What the operands of a variant are rounded to on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Numerics {
    /// Nothing: products and sums in f32, of the operands as they are.
    #[default]
    F32,
    /// Activations are rounded to int8, in runs of 16 that share a scale.
    Int8Activations,
}

impl Numerics {
    /// Largest error that the rounding adds at a site, relative to the root mean square of y, for activations as random
    /// cases draw them.
    ///
    /// With steps of max |x| / 127, rounding is off by a uniform error of standard deviation max |x| / (127 sqrt(12)).
    /// Errors are independent, so that those of a sum stand to the sum as this stands to the root mean square of x: for x
    /// uniform in a range about 0, max / rms = sqrt(3), which gives sqrt(3) / (127 sqrt(12)) = 1 / 254. Among as many
    /// outputs as a model has, the largest of normal errors stays below 6 standard deviations. Where the sum is squared,
    /// the largest outputs have the largest errors, 2 y dy: 4 standard deviations of y and 6 of dy, over the root mean
    /// square of a squared and clipped normal, sqrt(3 / 2). Of the four planes of `project`, the fourth may be next to
    /// nothing: the root mean square of y is that of three over sqrt(4 / 3).
    pub fn error(self, site: &Site) -> f32 {
        let squared = matches!(site.op, Op::Matmul { activation: Activation::ReluSquared });
        match self {
            Numerics::F32 => 0.0,
            Numerics::Int8Activations if squared => 2.0 * 4.0 * 6.0 / 254.0 / 1.5f32.sqrt(),
            Numerics::Int8Activations if site.op.name() == "project" => 6.0 / 254.0 * (4.0f32 / 3.0).sqrt(),
            Numerics::Int8Activations => 6.0 / 254.0,
        }
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Numerics::F32 => "f32",
            Numerics::Int8Activations => "int8 activations",
        })
    }
}
