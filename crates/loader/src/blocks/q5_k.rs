//! Q5_K: 256 weights in 176 bytes, 8 sub-blocks of 32.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..16 | scales and minima: [`affine`] |
//! | 16..48 | fifth bits: bit j of byte i belongs to weight i of sub-block j |
//! | 48..176 | nibbles: byte 32 g + i holds weight i of sub-blocks 2 g (low) and 2 g + 1 (high) |
//!
//! `w = d sc q - dmin m`.

use super::affine::{self, HEADER};

pub(super) fn decode(block: &[u8; 176], out: &mut [f32; 256]) {
    let (header, codes) = block.split_at(HEADER);
    let (fifth, nibbles) = codes.split_at(32);
    let scales = affine::read_scales(header);
    for (j, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scales[j];
        let nibbles = &nibbles[32 * (j / 2)..][..32];
        for (i, w) in out.iter_mut().enumerate() {
            let low = (nibbles[i] >> (4 * (j % 2))) & 15;
            let high = (fifth[i] >> j) & 1;
            *w = scale * f32::from(low | (high << 4)) - min;
        }
    }
}

pub(super) fn encode(weights: &[f32; 256], block: &mut [u8; 176]) {
    let (header, bytes) = block.split_at_mut(HEADER);
    let codes = affine::encode(weights, 31.0, header);
    let (fifth, nibbles) = bytes.split_at_mut(32);
    for (i, b) in fifth.iter_mut().enumerate() {
        *b = (0..8).fold(0, |bits, j| bits | ((codes[j][i] >> 4) << j));
    }
    for (g, bytes) in nibbles.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = (codes[2 * g][i] & 15) | ((codes[2 * g + 1][i] & 15) << 4);
        }
    }
}
