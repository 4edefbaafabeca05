//! Probabilities, up to a common factor, as integers.

/// Most logits that can be weighed: their sum stays below 2^63. Far above any vocabulary.
pub(super) const MAX_LOGITS: usize = 1 << 22;

/// The weight of the likeliest token.
pub(super) const ONE: f64 = (1u64 << 40) as f64;

/// exp(x) in units of 2^-40, rounded, for x from minus infinity to 0; 2^40 for x = 0.
///
/// Made of IEEE additions and multiplications alone, hence the same on every platform (the standard library's `exp`
/// is not), and vectorised by the compiler. The relative error before rounding is below 1e-12.
pub(super) fn weight(x: f64) -> u64 {
    /// Adding 3 * 2^51 rounds to an integer, which then is the low mantissa bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// Adding 2^52 does so for numbers that are not negative, with no bit to spare.
    const ROUND_POSITIVE: f64 = 4_503_599_627_370_496.0;
    /// 1/k! for k from 9 down to 0: Taylor's series, |r| <= ln(2)/2.
    const SERIES: [f64; 10] =
        [1.0 / 362_880.0, 1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

    // exp(x) = 2^n exp(r). Below -60 the weight is 0 anyway.
    let x = x.max(-60.0);
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let r = x - (rounded - ROUND) * std::f64::consts::LN_2;
    let mut exp_r = 1.0 / 3_628_800.0;
    for coefficient in SERIES {
        exp_r = exp_r * r + coefficient;
    }
    let power = f64::from_bits((rounded.to_bits().wrapping_add(1023)) << 52);
    (exp_r * power * ONE + ROUND_POSITIVE).to_bits() & ((1 << 52) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_are_exact() {
        assert_eq!(weight(0.0), 1 << 40);
        assert_eq!(weight(-0.0), 1 << 40);
        assert_eq!(weight(-1e-300), 1 << 40);
        assert_eq!(weight(-29.0), 0);
        assert_eq!(weight(-1e300), 0);
        assert_eq!(weight(f64::NEG_INFINITY), 0);
    }

    proptest! {
        #[test]
        fn a_weight_equals_the_exponential(x in -30.0f64..0.0) {
            let exact = x.exp() * ONE;
            prop_assert!((weight(x) as f64 - exact).abs() <= 0.5 + 1e-12 * exact, "{x}: {} {exact}", weight(x));
        }

        /// A larger logit never weighs less.
        #[test]
        fn neighbours_are_in_order(x in -30.0f32..-0.0) {
            prop_assert!(weight(x.into()) <= weight(x.next_up().into()));
        }
    }
}
