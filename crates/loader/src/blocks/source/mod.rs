//! Block formats that files have and no kernel reads: a conversion decodes them, and nothing else does.
//!
//! Layouts: ggml's `ggml-common.h`, little endian; decoding equals ggml's (`ggml-quants.c`) bit for bit, as that of
//! [`super::decode`].

mod blocks_of_32;
mod iq4;
mod q2_k;
mod q3_k;

use super::decode_each;
use std::fmt;

/// A format that only conversions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // the names users know from GGUF
pub enum SourceFormat {
    /// 32 weights in 20 bytes: f16 scale and minimum, nibbles.
    Q4_1,
    /// 32 weights in 22 bytes: f16 scale, fifth bits, nibbles (offset 16).
    Q5_0,
    /// 32 weights in 24 bytes: f16 scale and minimum, fifth bits, nibbles.
    Q5_1,
    /// 256 weights in 84 bytes: 16 four-bit (scale, min) pairs, pairs of bits, two f16 super scales.
    Q2_K,
    /// 256 weights in 110 bytes: third bits, pairs of bits, 16 six-bit scales, f16 super scale.
    Q3_K,
    /// 32 weights in 18 bytes: f16 scale, nibbles that name one of 16 unevenly spaced numbers.
    IQ4_NL,
    /// 256 weights in 136 bytes: as [`SourceFormat::IQ4_NL`], with 8 six-bit scales and an f16 super scale.
    IQ4_XS,
}

impl SourceFormat {
    /// Every one.
    pub const ALL: [SourceFormat; 7] = [
        SourceFormat::Q4_1,
        SourceFormat::Q5_0,
        SourceFormat::Q5_1,
        SourceFormat::Q2_K,
        SourceFormat::Q3_K,
        SourceFormat::IQ4_NL,
        SourceFormat::IQ4_XS,
    ];

    /// Name, ggml's number (`ggml.h`, `enum ggml_type`), weights and bytes of a block.
    const fn row(self) -> (&'static str, u32, usize, usize) {
        match self {
            SourceFormat::Q4_1 => ("Q4_1", 3, 32, 20),
            SourceFormat::Q5_0 => ("Q5_0", 6, 32, 22),
            SourceFormat::Q5_1 => ("Q5_1", 7, 32, 24),
            SourceFormat::Q2_K => ("Q2_K", 10, 256, 84),
            SourceFormat::Q3_K => ("Q3_K", 11, 256, 110),
            SourceFormat::IQ4_NL => ("IQ4_NL", 20, 32, 18),
            SourceFormat::IQ4_XS => ("IQ4_XS", 23, 256, 136),
        }
    }

    /// As in GGUF.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// That of ggml's number.
    pub(crate) fn of_ggml_type(number: u32) -> Option<Self> {
        SourceFormat::ALL.into_iter().find(|format| format.row().1 == number)
    }

    /// Bytes of so many weights; `None` where they are not whole blocks or the size overflows.
    pub(crate) fn bytes(self, rows: usize, cols: usize) -> Option<usize> {
        let (_, _, weights, bytes) = self.row();
        let blocks = cols.is_multiple_of(weights).then(|| rows.checked_mul(cols / weights))??;
        blocks.checked_mul(bytes)
    }

    /// Decodes whole blocks into floats.
    ///
    /// # Panics
    /// If `bytes` and `out` are not the same whole number of blocks: the caller has checked the tensor's size.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(self.bytes(1, out.len()), Some(bytes.len()), "{} weights of {self}", out.len());
        match self {
            SourceFormat::Q4_1 => decode_each(bytes, out, blocks_of_32::q4_1),
            SourceFormat::Q5_0 => decode_each(bytes, out, blocks_of_32::q5_0),
            SourceFormat::Q5_1 => decode_each(bytes, out, blocks_of_32::q5_1),
            SourceFormat::Q2_K => decode_each(bytes, out, q2_k::decode),
            SourceFormat::Q3_K => decode_each(bytes, out, q3_k::decode),
            SourceFormat::IQ4_NL => decode_each(bytes, out, iq4::nl),
            SourceFormat::IQ4_XS => decode_each(bytes, out, iq4::xs),
        }
    }
}

impl fmt::Display for SourceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
