//! Rounding that compiles to plain vector instructions on every target, and reading and writing f16 scales.

use half::f16;

/// 1.5 * 2^23: adding it to a float below 2^22 leaves the nearest integer (ties to even) in the low mantissa bits.
const MAGIC: f32 = 12_582_912.0;

/// The nearest integer, ties to even, as a float; |x| < 2^22.
#[inline(always)]
pub(super) fn nearest(x: f32) -> f32 {
    (x + MAGIC) - MAGIC
}

/// The nearest integer, ties to even, as a two's complement byte; the caller has clamped x to the byte's range.
#[inline(always)]
pub(super) fn nearest_byte(x: f32) -> u8 {
    (x + MAGIC).to_bits() as u8
}

/// x limited to `lo..=hi`, in two instructions (`f32::clamp` keeps NaN and costs more).
#[inline(always)]
pub(super) fn clamp(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x > lo { x } else { lo };
    if x < hi { x } else { hi }
}

/// The largest f16.
pub(super) const LARGEST_F16: f32 = 65504.0;

/// What a quantised format can take of x: NaN as 0, the rest saturated at the largest f16.
#[inline(always)]
pub(super) fn representable(x: f32) -> f32 {
    representable_below(x, LARGEST_F16)
}

/// As [`representable`], saturated elsewhere.
#[inline(always)]
pub(super) fn representable_below(x: f32, largest: f32) -> f32 {
    let x = if x.is_nan() { 0.0 } else { x };
    clamp(x, -largest, largest)
}

/// 1 / x, and 0 where x is 0 or too small to be divided by.
#[inline(always)]
pub(super) fn inverse_or_zero(x: f32) -> f32 {
    if x.abs() >= f32::MIN_POSITIVE { 1.0 / x } else { 0.0 }
}

/// Reads a little-endian f16.
#[inline(always)]
pub(super) fn read_f16(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// Writes x as a little-endian f16 and returns what was written.
#[inline(always)]
pub(super) fn write_f16(x: f32, bytes: &mut [u8]) -> f32 {
    let rounded = f16::from_f32(x);
    bytes.copy_from_slice(&rounded.to_le_bytes());
    rounded.to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_rounds_like_ieee() {
        for i in -4000..4000 {
            let x = i as f32 / 16.0;
            assert_eq!(nearest(x), x.round_ties_even(), "{x}");
            let byte = clamp(x, -128.0, 127.0);
            assert_eq!(nearest_byte(byte) as i8, byte.round_ties_even() as i8, "{x}");
        }
    }

    #[test]
    fn unrepresentable_numbers_have_a_place() {
        assert_eq!(representable(f32::NAN), 0.0);
        assert_eq!(representable(f32::NEG_INFINITY), -65504.0);
        assert_eq!(representable(1e30), 65504.0);
        assert_eq!(inverse_or_zero(1e-40), 0.0);
    }
}
