//! Q8_0: 32 weights in 34 bytes.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..2 | f16 `d` |
//! | 2..34 | 32 signed bytes `q` |
//!
//! `w = d q`.

use super::rounding::{LARGEST_F16, clamp, inverse_or_zero, nearest_byte, read_f16, representable_below, write_f16};

/// The largest weight: 127 of the largest scale.
pub(super) const LARGEST: f32 = 127.0 * LARGEST_F16;

pub(super) fn decode(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = read_f16([block[0], block[1]]);
    for (q, w) in block[2..].iter().zip(out) {
        *w = d * f32::from(*q as i8);
    }
}

/// The largest magnitude becomes ±127.
pub(super) fn encode(weights: &[f32; 32], block: &mut [u8; 34]) {
    let weights = weights.map(|w| representable_below(w, LARGEST));
    let largest = weights.iter().fold(0.0_f32, |m, w| m.max(w.abs()));
    let (scale, codes) = block.split_at_mut(2);
    let inverse = inverse_or_zero(write_f16(largest / 127.0, scale));
    for (w, q) in weights.iter().zip(codes) {
        *q = nearest_byte(clamp(w * inverse, -127.0, 127.0));
    }
}
