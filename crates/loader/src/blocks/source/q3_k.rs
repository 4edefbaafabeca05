//! Q3_K: 256 weights in 110 bytes, 16 sub-blocks of 16.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..32 | third bits: bit r of byte i is that of weight 32 r + i |
//! | 32..96 | lower two bits, as in [`super::q2_k`] |
//! | 96..108 | scales of six bits: sub-block j has its low four in byte j % 8 (low nibble for j < 8), its high two in byte 8 + j % 4, from bit 2 (j / 4) on |
//! | 108..110 | f16 `d` |
//!
//! `w = d (sc - 32) (q - 4)`.

use super::q2_k::place;
use crate::blocks::rounding::read_f16;

pub(super) fn decode(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = read_f16([block[108], block[109]]);
    let (third, scales) = (&block[..32], &block[96..108]);
    for (j, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = if j < 8 { scales[j] & 15 } else { scales[j - 8] >> 4 };
        let high = scales[8 + j % 4] >> (2 * (j / 4)) & 3;
        let scale = d * (f32::from(low | high << 4) - 32.0);
        let (bytes, shift) = place(j);
        for (i, out) in out.iter_mut().enumerate() {
            let q = block[32 + bytes + i] >> shift & 3;
            let top = third[16 * (j % 2) + i] >> (j / 2) & 1;
            *out = scale * (f32::from(q | top << 2) - 4.0);
        }
    }
}
