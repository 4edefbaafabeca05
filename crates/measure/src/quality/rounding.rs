//! How much a class of precision may move logits, and so how far apart two of them must be for their order to be
//! certain.

use serde::{Deserialize, Serialize};
use wgoose_graph::{Format, Weight, WeightClass};
use wgoose_kernels::PrecisionClass;
use wgoose_loader::Model;

/// Products that follow one another in a layer: time mix (r, k, v, adapters, output) and channel mix (key, whose error
/// the square doubles, and value).
const PRODUCTS: f32 = 7.0;

/// Those that DeepEmbed adds to a layer of RWKV-7a: of the embedding, down, by the token's matrix, and up.
const DEEP_EMBED_PRODUCTS: f32 = 4.0;

/// Standard deviations that cover the largest of as many normal errors as a gate looks at.
const DEVIATIONS: f32 = 6.0;

/// How many times as far apart logits must be at the first token of a sequence: the state is of rank one there, and its
/// norm amplifies rounding. On an H100 5 to 9 times (0.1B, 1.5B and 2.9B, f32 and f16).
const FIRST: f32 = 10.0;

/// How many times as large the errors of a first token may be: where a head's output is next to nothing, its norm has
/// no bound. A trained model has seen 44 times (the demo's in Q4_K_M, q15).
const FIRST_LIMIT: f64 = 100.0;

/// The errors of a model whose seven products a layer are all off as much as their numbers allow come to less than half
/// of what [`Rounding::of_logits`] says, on an H100; past twice that something other than rounding is at work.
const LIMIT: f64 = 2.0;

/// What decides how far rounding moves the logits of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rounding {
    pub(super) layers: u32,
    /// Products that follow one another in a layer.
    products: f32,
    /// Terms of the longest sum.
    longest_sum: u32,
    /// Whether f16 products take the weights as they are.
    has_f16_weights: bool,
}

impl Rounding {
    pub(super) fn of(model: &Model) -> Self {
        let shape = model.shape();
        let mut products = Weight::all(shape).filter(|w| w.class() != WeightClass::Vector && !w.is_token_table());
        Rounding {
            layers: shape.layers,
            products: PRODUCTS + shape.deep_embed.map_or(0.0, |_| DEEP_EMBED_PRODUCTS),
            longest_sum: shape.ffn.max(shape.width),
            has_f16_weights: products.all(|weight| model.tensor(weight).format() == Format::F16),
        }
    }

    /// Standard deviation of a logit's error, over that of the logits.
    ///
    /// Errors of products are independent of one another: their variances add up, over the products of a layer and over
    /// layers, none of which takes an error away again. A product is off by what its class rounds, and by the sum of
    /// its terms in f32, each partial sum to 2^-24: `2^-24 sqrt(terms)` at most. The state is rounded once a layer.
    fn of_logits(&self, class: PrecisionClass) -> f32 {
        let sum = f32::EPSILON / 2.0 * (self.longest_sum as f32).sqrt();
        let product = class.products.rounding(self.has_f16_weights);
        let of_layer = self.products * (sum.powi(2) + product.powi(2)) + class.state.rounding().powi(2);
        (self.layers as f32 * of_layer).sqrt()
    }

    /// Distance of two logits, in standard deviations of the position's logits, beyond which every plan of a class
    /// orders them as the reference does.
    pub(super) fn margin(&self, class: PrecisionClass, is_first: bool) -> f32 {
        DEVIATIONS * std::f32::consts::SQRT_2 * self.of_logits(class) * if is_first { FIRST } else { 1.0 }
    }

    /// Largest root-mean-square error of a plan of a class, relative to the logits'.
    pub(super) fn rms_limit(&self, class: PrecisionClass, is_first: bool) -> f64 {
        LIMIT * f64::from(self.of_logits(class)) * if is_first { FIRST_LIMIT } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_kernels::{Precision, StateFormat};

    #[test]
    fn a_coarser_class_rounds_more() {
        let rounding = Rounding { layers: 32, products: PRODUCTS, longest_sum: 10240, has_f16_weights: false };
        for class in PrecisionClass::all() {
            for coarser in class.and_coarser().skip(1) {
                assert!(rounding.margin(class, false) < rounding.margin(coarser, false), "{class}, {coarser}");
            }
        }
        // What 2.9B Q4_K_M was off by on an H100 with f16 products: 3.3e-3, and 2.4e-2 at first tokens.
        let f16 = PrecisionClass { products: Precision::F16, state: StateFormat::F32 };
        assert!(rounding.rms_limit(f16, false) > 3.3e-3 && rounding.rms_limit(f16, true) > 2.4e-2);
        assert!(rounding.rms_limit(f16, false) < 3e-2);
    }
}
