//! The layout that Q4_K and Q5_K share: 256 weights as 8 sub-blocks of 32, each `w = d sc q - dmin m` with six-bit `sc`
//! and `m`.
//!
//! The 16 bytes that begin such a block:
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..2, 2..4 | f16 `d`, f16 `dmin` |
//! | 4..8 | sub-blocks 0..4: `sc` (low six bits); top two bits: bits 4..6 of `sc` of sub-block j + 4 |
//! | 8..12 | the same for `m` |
//! | 12..16 | sub-blocks 4..8: bits 0..4 of `sc` (low nibble) and of `m` (high nibble) |
//!
//! The encoder works on all 8 sub-blocks at once, one per lane of a vector.

use super::rounding::{clamp, inverse_or_zero, nearest, nearest_byte, read_f16, representable, write_f16};

/// Bytes of scales and minima at the beginning of a block.
pub(super) const HEADER: usize = 16;

/// One number per sub-block.
type Lanes = [f32; 8];

/// Largest six-bit number.
const SIX_BITS: f32 = 63.0;

/// Rounds of (choose codes, solve for scale and minimum). Error on normal weights, Q4_K: 0.0730 after one round, 0.0710
/// after four, 0.0708 after seven.
const ROUNDS: usize = 4;

/// Reads `(d sc, dmin m)` of each sub-block.
pub(super) fn read_scales(header: &[u8]) -> [(f32, f32); 8] {
    let d = read_f16([header[0], header[1]]);
    let dmin = read_f16([header[2], header[3]]);
    let packed = &header[4..];
    std::array::from_fn(|j| {
        let (sc, m) = if j < 4 {
            (packed[j] & 63, packed[j + 4] & 63)
        } else {
            let low = packed[j + 4];
            ((low & 15) | ((packed[j - 4] >> 6) << 4), (low >> 4) | ((packed[j] >> 6) << 4))
        };
        (d * f32::from(sc), dmin * f32::from(m))
    })
}

/// Chooses scales and minima for codes `0..=top`, writes them, and returns the code of each weight.
pub(super) fn encode(weights: &[f32; 256], top: f32, header: &mut [u8]) -> [[u8; 32]; 8] {
    let mut lanes = [[0.0; 8]; 32];
    for (j, sub_block) in weights.as_chunks::<32>().0.iter().enumerate() {
        for (i, w) in sub_block.iter().enumerate() {
            lanes[i][j] = representable(*w);
        }
    }
    let (scale, min) = fit(&lanes, top);
    write_scales(&scale, &min, header);

    // The codes are chosen for the scales as they were rounded, not as they were wished.
    let stored = read_scales(header);
    let inverse: Lanes = std::array::from_fn(|j| inverse_or_zero(stored[j].0));
    let min: Lanes = std::array::from_fn(|j| stored[j].1);
    let mut codes = [[0; 32]; 8];
    for (i, w) in lanes.iter().enumerate() {
        for j in 0..8 {
            codes[j][i] = nearest_byte(clamp((w[j] + min[j]) * inverse[j], 0.0, top));
        }
    }
    codes
}

/// Least squares: scale >= 0 and minimum >= 0 of each sub-block that make `scale q - minimum` closest to the weights,
/// q being the best code of `0..=top`. Alternates between the codes and the line through them; no round is worse than
/// the one before.
fn fit(w: &[Lanes; 32], top: f32) -> (Lanes, Lanes) {
    let (mut lo, mut hi, mut sum_w) = ([0.0; 8], w[0], [0.0; 8]);
    for w in w {
        for j in 0..8 {
            lo[j] = if w[j] < lo[j] { w[j] } else { lo[j] };
            hi[j] = if w[j] > hi[j] { w[j] } else { hi[j] };
            sum_w[j] += w[j];
        }
    }
    let n = w.len() as f32;
    let mut scale: Lanes = std::array::from_fn(|j| (hi[j] - lo[j]) / top);
    let mut min = lo.map(|x| -x);
    for _ in 0..ROUNDS {
        let inverse = scale.map(inverse_or_zero);
        let (mut sum_q, mut sum_qq, mut sum_qw) = ([0.0; 8], [0.0; 8], [0.0; 8]);
        for w in w {
            for j in 0..8 {
                let q = nearest(clamp((w[j] + min[j]) * inverse[j], 0.0, top));
                sum_q[j] += q;
                sum_qq[j] += q * q;
                sum_qw[j] += q * w[j];
            }
        }
        for j in 0..8 {
            let determinant = n * sum_qq[j] - sum_q[j] * sum_q[j];
            let slope = (n * sum_qw[j] - sum_q[j] * sum_w[j]) * inverse_or_zero(determinant);
            let offset = (slope * sum_q[j] - sum_w[j]) / n;
            // A minimum below zero cannot be stored: the best line then goes through the origin.
            let through_origin = sum_qw[j] * inverse_or_zero(sum_qq[j]);
            (scale[j], min[j]) = if offset > 0.0 { (slope, offset) } else { (through_origin, 0.0) };
        }
    }
    (scale, min)
}

fn write_scales(scale: &Lanes, min: &Lanes, header: &mut [u8]) {
    let largest = |x: &Lanes| x.iter().fold(0.0_f32, |m, x| m.max(*x));
    let d = write_f16(largest(scale) / SIX_BITS, &mut header[0..2]);
    let dmin = write_f16(largest(min) / SIX_BITS, &mut header[2..4]);
    let six_bits = |x: f32, unit: f32| nearest_byte(clamp(x * inverse_or_zero(unit), 0.0, SIX_BITS));
    let packed = &mut header[4..];
    for j in 0..4 {
        let (sc, m) = (six_bits(scale[j], d), six_bits(min[j], dmin));
        let (sc_late, m_late) = (six_bits(scale[j + 4], d), six_bits(min[j + 4], dmin));
        packed[j] = sc | ((sc_late >> 4) << 6);
        packed[j + 4] = m | ((m_late >> 4) << 6);
        packed[j + 8] = (sc_late & 15) | ((m_late & 15) << 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_survive_packing() {
        let scale: Lanes = [63.0, 1.0, 17.0, 32.0, 48.0, 5.0, 62.0, 0.0];
        let min: Lanes = [2.0, 63.0, 16.0, 31.0, 0.0, 47.0, 33.0, 15.0];
        let mut header = [0; 16];
        write_scales(&scale, &min, &mut header);
        assert_eq!(read_scales(&header), std::array::from_fn(|j| (scale[j], min[j])));
    }
}
