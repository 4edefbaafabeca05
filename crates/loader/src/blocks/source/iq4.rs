//! IQ4_NL and IQ4_XS: nibbles that name one of 16 unevenly spaced numbers.
//!
//! | | bytes | meaning |
//! |---|---|---|
//! | IQ4_NL | 0..2 | f16 `d` |
//! | | 2..18 | nibbles: byte i holds weight i (low) and weight 16 + i (high) |
//! | IQ4_XS | 0..2 | f16 `d` |
//! | | 2..4 | top two bits of the scales `sc` of 8 sub-blocks of 32, lowest bits first |
//! | | 4..8 | their low nibbles |
//! | | 8..136 | nibbles of each sub-block, as in IQ4_NL |
//!
//! `w = d v`, and `w = d (sc - 32) v`.

use crate::blocks::rounding::read_f16;

/// ggml's `kvalues_iq4nl`.
const VALUES: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

pub(super) fn nl(block: &[u8; 18], out: &mut [f32; 32]) {
    scaled(read_f16([block[0], block[1]]), &block[2..], out);
}

pub(super) fn xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let d = read_f16([block[0], block[1]]);
    let high = u16::from_le_bytes([block[2], block[3]]);
    for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = block[4 + j / 2] >> (4 * (j % 2)) & 15;
        let scale = low | ((high >> (2 * j) & 3) as u8) << 4;
        scaled(d * (f32::from(scale) - 32.0), &block[8 + 16 * j..8 + 16 * (j + 1)], out);
    }
}

fn scaled(scale: f32, nibbles: &[u8], out: &mut [f32; 32]) {
    for (i, b) in nibbles.iter().enumerate() {
        out[i] = scale * VALUES[usize::from(b & 15)];
        out[16 + i] = scale * VALUES[usize::from(b >> 4)];
    }
}
