//! Q4_1, Q5_0 and Q5_1: 32 weights behind an f16 scale `d`.
//!
//! | | minimum | fifth bits | nibbles | weight |
//! |---|---|---|---|---|
//! | Q4_1 | 2..4, f16 `m` | | 4..20 | `d q + m` |
//! | Q5_0 | | 2..6 | 6..22 | `d (q - 16)` |
//! | Q5_1 | 2..4, f16 `m` | 4..8 | 8..24 | `d q + m` |
//!
//! Byte i of the nibbles holds weight i (low) and weight 16 + i (high); bit i of the fifth bits is that of weight i.

use crate::blocks::rounding::read_f16;

pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (read_f16([block[0], block[1]]), read_f16([block[2], block[3]]));
    for (i, b) in block[4..].iter().enumerate() {
        out[i] = d * f32::from(b & 15) + m;
        out[16 + i] = d * f32::from(b >> 4) + m;
    }
}

pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = read_f16([block[0], block[1]]);
    let codes = codes([block[2], block[3], block[4], block[5]], &block[6..]);
    for (out, q) in out.iter_mut().zip(codes) {
        *out = d * (f32::from(q) - 16.0);
    }
}

pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (read_f16([block[0], block[1]]), read_f16([block[2], block[3]]));
    let codes = codes([block[4], block[5], block[6], block[7]], &block[8..]);
    for (out, q) in out.iter_mut().zip(codes) {
        *out = d * f32::from(q) + m;
    }
}

/// Codes of five bits.
fn codes(fifth: [u8; 4], nibbles: &[u8]) -> [u8; 32] {
    let fifth = u32::from_le_bytes(fifth);
    std::array::from_fn(|i| {
        let low = if i < 16 { nibbles[i] & 15 } else { nibbles[i - 16] >> 4 };
        low | (((fifth >> i & 1) as u8) << 4)
    })
}
