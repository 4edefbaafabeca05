//! Q2_K: 256 weights in 84 bytes, 16 sub-blocks of 16.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0..16 | of each sub-block `sc` (low nibble) and `m` (high nibble) |
//! | 16..80 | codes `q` of two bits: byte 32 h + i holds weights i, 32 + i, 64 + i and 96 + i of half h, lowest bits first |
//! | 80..82, 82..84 | f16 `d`, f16 `dmin` |
//!
//! `w = d sc q - dmin m`.

use crate::blocks::rounding::read_f16;

pub(super) fn decode(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (read_f16([block[80], block[81]]), read_f16([block[82], block[83]]));
    for (j, (scale, out)) in block[..16].iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let (scale, min) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
        let (bytes, shift) = place(j);
        for (out, b) in out.iter_mut().zip(&block[16 + bytes..]) {
            *out = scale * f32::from(b >> shift & 3) - min;
        }
    }
}

/// Where the codes of a sub-block begin, and at which bit.
pub(super) fn place(sub_block: usize) -> (usize, usize) {
    let (half, row, part) = (sub_block / 8, sub_block % 8 / 2, sub_block % 2);
    (32 * half + 16 * part, 2 * row)
}
