//! What a variant computes with, beside f32: how coarsely the activations inside a product are rounded.

use crate::Instance;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use wgoose_graph::{Activation, Op};

/// Precision of the activations inside a product, the least precise last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// f32: products and sums of the operands as they are.
    #[default]
    F32,
    /// 15 bits, as two int8 limbs, with a scale per 16 or per 128 of them.
    Q15,
    /// int8, with a scale per 16 of them.
    Q8,
}

/// A name that is no [`Precision`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no precision '{0}': f32, q15, q8")]
pub struct UnknownPrecision(pub String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Precision::F32, Precision::Q15, Precision::Q8];
        all.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

impl Precision {
    /// As kernel files and options name it.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Q15 => "q15",
            Precision::Q8 => "q8",
        }
    }

    /// Largest error that the rounding adds, relative to the root mean square of y, for activations as random cases draw
    /// them: `6 s`, with `s` the standard deviation of an output's error over that of the output.
    ///
    /// - A step is `max |x| / 127` (q8; `/ 16256` for q15), the error of a value uniform over it: `s = max / (127 sqrt(12))`
    ///   of `rms(x)`. Errors are independent, so a sum's error stands to the sum as this to `rms(x)`.
    /// - x is uniform about 0, `max / rms = sqrt(3)`: `s = sqrt(3) / (127 sqrt(12)) = 1 / 254`. Six of them cover the
    ///   largest of as many normal errors as a model has outputs.
    /// - Squared outputs (`relu^2`): `dy = 2 y e`, with 4 deviations of y and 6 of e, over the root mean square of a squared,
    ///   clipped normal, `sqrt(3 / 2)`.
    /// - Planes of y that may be next to nothing raise the rest's share: `sqrt(4 / 3)` for `project`, `sqrt(5 / 3)` for
    ///   `norm_project`, `sqrt(2)` for `norm_matmul`. After a norm, scales and mixes `max / rms` is up to twice `sqrt(3)`.
    ///
    /// A scale per 128 values is no larger than the range of x allows, one per 16 hardly smaller: the bound holds for both.
    pub fn error(self, instance: &Instance) -> f32 {
        let step = match self {
            Precision::F32 => return 0.0,
            Precision::Q15 => 1.0 / (2.0 * 16256.0),
            Precision::Q8 => 1.0 / (2.0 * 127.0),
        };
        let activation = match instance.op {
            Op::Matmul { activation } | Op::NormMatmul { activation, .. } => activation,
            _ => Activation::None,
        };
        let of_product = match activation {
            Activation::ReluSquared => 2.0 * 4.0 * 6.0 * step / 1.5f32.sqrt(),
            _ => 6.0 * step,
        };
        match instance.op {
            Op::Project { .. } => of_product * (4.0f32 / 3.0).sqrt(),
            Op::NormProject { .. } => of_product * 2.0 * (5.0f32 / 3.0).sqrt(),
            Op::NormMatmul { .. } => of_product * 2.0 * 2.0f32.sqrt(),
            _ => of_product,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Precision::F32 => "f32",
            Precision::Q15 => "15-bit activations",
            Precision::Q8 => "int8 activations",
        })
    }
}
