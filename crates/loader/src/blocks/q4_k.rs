//! Q4_K: 256 weights in 144 bytes, 8 sub-blocks of 32.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..16 | scales and minima: [`affine`] |
//! | 16..144 | nibbles `q`: byte 32 g + i holds weight i of sub-blocks 2 g (low) and 2 g + 1 (high) |
//!
//! `w = d sc q - dmin m`.

use super::affine::{self, HEADER};

pub(super) fn decode(block: &[u8; 144], out: &mut [f32; 256]) {
    let (header, codes) = block.split_at(HEADER);
    let scales = affine::read_scales(header);
    for (g, (codes, out)) in codes.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0).enumerate() {
        let [(low, low_min), (high, high_min)] = [scales[2 * g], scales[2 * g + 1]];
        for (i, b) in codes.iter().enumerate() {
            out[i] = low * f32::from(b & 15) - low_min;
            out[32 + i] = high * f32::from(b >> 4) - high_min;
        }
    }
}

pub(super) fn encode(weights: &[f32; 256], block: &mut [u8; 144]) {
    let (header, bytes) = block.split_at_mut(HEADER);
    let codes = affine::encode(weights, 15.0, header);
    for (g, bytes) in bytes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = codes[2 * g][i] | (codes[2 * g + 1][i] << 4);
        }
    }
}
