//! Q6_K: 256 weights in 210 bytes, 16 sub-blocks of 16, in two halves of 128 weights.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..128 | low nibbles: byte 64 h + l holds weight l (low) and weight 64 + l (high) of half h, l < 64 |
//! | 128..192 | high pairs: bits 2 k..2 k + 2 of byte 32 h + l belong to weight 32 k + l of half h, l < 32, k < 4 |
//! | 192..208 | signed byte `sc` of each sub-block |
//! | 208..210 | f16 `d` |
//!
//! `w = d sc (q - 32)`.

use super::rounding::{clamp, inverse_or_zero, nearest, nearest_byte, read_f16, representable, write_f16};

/// One number per sub-block.
type Lanes = [f32; 16];

/// Rounds of (choose codes, solve for the scale).
const ROUNDS: usize = 3;

pub(super) fn decode(block: &[u8; 210], out: &mut [f32; 256]) {
    let (codes, scales) = block.split_at(192);
    let (low, high) = codes.split_at(128);
    let d = read_f16([scales[16], scales[17]]);
    for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, k) = (run / 4, run % 4);
        let low = &low[64 * half + 32 * (k % 2)..][..32];
        let high = &high[32 * half..][..32];
        let scale = [0, 1].map(|s| d * f32::from(scales[2 * run + s] as i8));
        for (l, w) in out.iter_mut().enumerate() {
            let code = ((low[l] >> (4 * (k / 2))) & 15) | (((high[l] >> (2 * k)) & 3) << 4);
            *w = scale[l / 16] * (f32::from(code) - 32.0);
        }
    }
}

pub(super) fn encode(weights: &[f32; 256], block: &mut [u8; 210]) {
    let mut lanes = [[0.0; 16]; 16];
    for (s, sub_block) in weights.as_chunks::<16>().0.iter().enumerate() {
        for (i, w) in sub_block.iter().enumerate() {
            lanes[i][s] = representable(*w);
        }
    }
    let (bytes, scales) = block.split_at_mut(192);
    let scale = write_scales(&fit(&lanes), scales);
    let inverse = scale.map(inverse_or_zero);
    let mut codes = [0; 256];
    for (i, w) in lanes.iter().enumerate() {
        for s in 0..16 {
            codes[16 * s + i] = nearest_byte(clamp(w[s] * inverse[s], -32.0, 31.0) + 32.0);
        }
    }
    let (low, high) = bytes.split_at_mut(128);
    for (half, codes) in codes.as_chunks::<128>().0.iter().enumerate() {
        for l in 0..64 {
            low[64 * half + l] = (codes[l] & 15) | ((codes[64 + l] & 15) << 4);
        }
        for l in 0..32 {
            high[32 * half + l] = (0..4).fold(0, |bits, k| bits | ((codes[32 * k + l] >> 4) << (2 * k)));
        }
    }
}

/// Least squares: the scale of each sub-block that makes `scale q` closest to the weights, q being the best code of
/// `-32..=31`. The weight of largest magnitude aims at -32, the code without a counterpart, so scales have both signs.
fn fit(w: &[Lanes; 16]) -> Lanes {
    let mut largest = [0.0; 16];
    for w in w {
        for s in 0..16 {
            largest[s] = if w[s].abs() > f32::abs(largest[s]) { w[s] } else { largest[s] };
        }
    }
    let mut scale = largest.map(|x| x / -32.0);
    for _ in 0..ROUNDS {
        let inverse = scale.map(inverse_or_zero);
        let (mut sum_qq, mut sum_qw) = ([0.0; 16], [0.0; 16]);
        for w in w {
            for s in 0..16 {
                let q = nearest(clamp(w[s] * inverse[s], -32.0, 31.0));
                sum_qq[s] += q * q;
                sum_qw[s] += q * w[s];
            }
        }
        for s in 0..16 {
            scale[s] = sum_qw[s] * inverse_or_zero(sum_qq[s]);
        }
    }
    scale
}

/// Writes the scales, the one of largest magnitude as -128, and returns them as a decoder will read them.
fn write_scales(scale: &Lanes, bytes: &mut [u8]) -> Lanes {
    let largest = scale.iter().fold(0.0_f32, |m, s| if s.abs() > m.abs() { *s } else { m });
    let d = write_f16(largest / -128.0, &mut bytes[16..]);
    let inverse = inverse_or_zero(d);
    std::array::from_fn(|s| {
        bytes[s] = nearest_byte(clamp(scale[s] * inverse, -128.0, 127.0));
        d * f32::from(bytes[s] as i8)
    })
}
