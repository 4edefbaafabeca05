//! The error that rounding the activations inside a product may cause.

use crate::{Instance, Precision, StateFormat};
use wgoose_graph::{Activation, Format, Op};

/// Root mean square of the relative error of an f16: 2^-12.3.
const F16_ERROR: f32 = 2.0e-4;

impl Precision {
    /// Standard deviation of the error that rounding the operands adds to a product's output, over that of the output;
    /// [`Instance::rounding_error`] has the derivation. `has_f16_weights`: the weights are stored as f16.
    pub const fn rounding(self, has_f16_weights: bool) -> f32 {
        match self {
            Precision::F32 => 0.0,
            Precision::Q15 => 1.0 / (2.0 * 16256.0),
            Precision::F16 if has_f16_weights => F16_ERROR,
            Precision::F16 => 3.2 * F16_ERROR,
            Precision::Q8 => 1.0 / (2.0 * 127.0),
        }
    }
}

impl StateFormat {
    /// Root mean square of the relative error of a value as it is stored.
    pub const fn rounding(self) -> f32 {
        match self {
            StateFormat::F32 => 0.0,
            StateFormat::F16 => F16_ERROR,
        }
    }
}

impl Instance {
    fn has_f16_weights(&self) -> bool {
        self.inputs.iter().all(|input| input.format.is_none_or(|format| format == Format::F16))
    }

    /// Largest error that the rounding adds, relative to the root mean square of y, for activations as random cases
    /// draw them: `6 s`, with `s` the standard deviation of an output's error over that of the output.
    ///
    /// - A step is `max |x| / 127` (q8; `/ 16256` for q15), the error of a value uniform over it: `s = max / (127
    ///   sqrt(12))`
    ///   of `rms(x)`. Errors are independent, so a sum's error stands to the sum as this to `rms(x)`.
    /// - An f16 is off by at most 2^-11 of itself, 2^-12.3 as a root mean square: as many standard deviations of a sum.
    ///   Weights
    ///   that are not f16 are rounded to it: scale, offset and the weight, each by as much, the first two of values up to twice
    ///   the weights'; with x `sqrt(1 + 4 + 4 + 1) < 3.2` times as much.
    /// - x is uniform about 0, `max / rms = sqrt(3)`: `s = sqrt(3) / (127 sqrt(12)) = 1 / 254`. Six of them cover the
    ///   largest of as many normal errors as a model has outputs.
    /// - Squared outputs (`relu^2`): `dy = 2 y e`, with 4 deviations of y and 6 of e, over the root mean square of a
    ///   squared,
    ///   clipped normal, `sqrt(3 / 2)`.
    /// - Planes of y that may be next to nothing raise the rest's share: `sqrt(4 / 3)` for `project`, `sqrt(5 / 3)` for
    ///   `norm_project`, `sqrt(2)` for `norm_matmul`, at most 2 for `lora_up`, whose sums are beside three planes of activations. After a norm, scales and mixes `max / rms` is up to twice `sqrt(3)`.
    ///
    /// A scale per 128 values is no larger than the range of x allows, one per 16 hardly smaller: the bound holds for
    /// both.
    pub fn rounding_error(&self, precision: Precision) -> f32 {
        let step = precision.rounding(self.has_f16_weights());
        let activation = match self.op {
            Op::Matmul { activation } | Op::NormMatmul { activation, .. } => activation,
            _ => Activation::None,
        };
        let of_product = match activation {
            Activation::ReluSquared => 2.0 * 4.0 * 6.0 * step / 1.5f32.sqrt(),
            _ => 6.0 * step,
        };
        match self.op {
            Op::Project { .. } => of_product * (4.0f32 / 3.0).sqrt(),
            Op::NormProject { .. } => of_product * 2.0 * (5.0f32 / 3.0).sqrt(),
            Op::NormMatmul { .. } => of_product * 2.0 * 2.0f32.sqrt(),
            Op::LoraUp { .. } => of_product * 2.0,
            _ => of_product,
        }
    }
}
