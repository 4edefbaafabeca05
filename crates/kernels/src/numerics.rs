//! What a variant computes with. Whoever runs a plan wants to know whether its numbers are those of f32.

use crate::Site;
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_graph::{Activation, Op};

/// What the operands of a variant are rounded to on the way, the roughest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Numerics {
    /// Nothing: products and sums in f32, of the operands as they are.
    #[default]
    F32,
    /// Activations are rounded to 15 bits, in runs of 16 that share a scale, or of 128 where blocks of K-quants meet them.
    Int16Activations,
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
    /// nothing: the root mean square of y is that of three over sqrt(4 / 3). Of the five planes of `norm_project` two may
    /// be, and about half of `norm_matmul`. Their columns are normed, scaled and mixed, so that max / rms is up to twice
    /// sqrt(3). Fifteen bits make 128 steps of each of those of int8. The largest |x| of a run of 128 is no larger than that
    /// of the range, and that of 16 is hardly smaller: the bound holds for both.
    pub fn error(self, site: &Site) -> f32 {
        let step = match self {
            Numerics::F32 => return 0.0,
            Numerics::Int16Activations => 1.0 / (2.0 * 16256.0),
            Numerics::Int8Activations => 1.0 / (2.0 * 127.0),
        };
        let activation = match site.op {
            Op::Matmul { activation } | Op::NormMatmul { activation, .. } => activation,
            _ => Activation::None,
        };
        let of_product = match activation {
            Activation::ReluSquared => 2.0 * 4.0 * 6.0 * step / 1.5f32.sqrt(),
            _ => 6.0 * step,
        };
        match site.op {
            Op::Project { .. } => of_product * (4.0f32 / 3.0).sqrt(),
            Op::NormProject { .. } => of_product * 2.0 * (5.0f32 / 3.0).sqrt(),
            Op::NormMatmul { .. } => of_product * 2.0 * 2.0f32.sqrt(),
            _ => of_product,
        }
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Numerics::F32 => "f32",
            Numerics::Int16Activations => "15-bit activations",
            Numerics::Int8Activations => "int8 activations",
        })
    }
}
