//! Q4_0: 32 weights in 18 bytes.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..2 | f16 `d` |
//! | 2..18 | nibbles `q`: byte i holds weight i (low) and weight 16 + i (high) |
//!
//! `w = d (q - 8)`.

use super::rounding::{clamp, inverse_or_zero, nearest_byte, read_f16, representable, write_f16};

pub(super) fn decode(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = read_f16([block[0], block[1]]);
    for (i, b) in block[2..].iter().enumerate() {
        out[i] = d * (f32::from(b & 15) - 8.0);
        out[16 + i] = d * (f32::from(b >> 4) - 8.0);
    }
}

/// The weight of largest magnitude becomes -8, the code without a counterpart; `d` takes the opposite of its sign.
pub(super) fn encode(weights: &[f32; 32], block: &mut [u8; 18]) {
    let weights = weights.map(representable);
    let largest = weights.iter().fold(0.0_f32, |m, w| if w.abs() > m.abs() { *w } else { m });
    let (scale, codes) = block.split_at_mut(2);
    let inverse = inverse_or_zero(write_f16(largest / -8.0, scale));
    let code = |w: f32| nearest_byte(clamp(w * inverse + 8.0, 0.0, 15.0));
    for (i, byte) in codes.iter_mut().enumerate() {
        *byte = code(weights[i]) | (code(weights[16 + i]) << 4);
    }
}
