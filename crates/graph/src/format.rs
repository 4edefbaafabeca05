//! Weight formats: how the numbers of a tensor lie in a file, block by block.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a tensor's numbers are stored. Quantised formats group consecutive weights of a row into blocks
/// (layouts: ggml's `ggml-common.h`, little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(non_camel_case_types)] // the names users know from GGUF
pub enum Format {
    /// 32-bit IEEE float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of a 32-bit float.
    BF16,
    /// 32 weights in 34 bytes: f16 scale, 32 signed bytes.
    Q8_0,
    /// 32 weights in 18 bytes: f16 scale, 16 bytes of nibbles (offset 8).
    Q4_0,
    /// 256 weights in 144 bytes: two f16 super scales, 8 six-bit (scale, min) pairs, nibbles.
    Q4_K,
    /// 256 weights in 176 bytes: as [`Format::Q4_K`] with 32 bytes of fifth bits.
    Q5_K,
    /// 256 weights in 210 bytes: low nibbles, high pairs, 16 signed scales, f16 super scale.
    Q6_K,
}

impl Format {
    /// Every format, in a fixed order.
    pub const ALL: [Format; 8] =
        [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0, Format::Q4_K, Format::Q5_K, Format::Q6_K];

    /// Weights in one block (1 for the float formats).
    pub const fn block_weights(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::BF16 => 1,
            Format::Q8_0 | Format::Q4_0 => 32,
            Format::Q4_K | Format::Q5_K | Format::Q6_K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::BF16 => 2,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
            Format::Q4_K => 144,
            Format::Q5_K => 176,
            Format::Q6_K => 210,
        }
    }

    /// Whether weights are stored as integers with shared scales.
    pub const fn is_quantised(self) -> bool {
        self.block_weights() > 1
    }

    /// Bytes of `rows` rows of `cols` weights; `None` where `cols` is no multiple of the block or the size overflows.
    pub fn bytes(self, rows: usize, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_weights()) {
            return None;
        }
        rows.checked_mul(cols / self.block_weights())?.checked_mul(self.block_bytes())
    }

    /// The name used in GGUF, plans and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Format::F32 => "F32",
            Format::F16 => "F16",
            Format::BF16 => "BF16",
            Format::Q8_0 => "Q8_0",
            Format::Q4_0 => "Q4_0",
            Format::Q4_K => "Q4_K",
            Format::Q5_K => "Q5_K",
            Format::Q6_K => "Q6_K",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown weight format '{0}': expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K")]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Format::ALL.into_iter().find(|f| f.name().eq_ignore_ascii_case(s)).ok_or_else(|| UnknownFormat(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for f in Format::ALL {
            assert_eq!(f.name().to_lowercase().parse::<Format>(), Ok(f));
        }
        assert!("Q4_X".parse::<Format>().is_err());
    }

    #[test]
    fn sizes_follow_blocks() {
        assert_eq!(Format::Q4_K.bytes(2, 512), Some(576));
        assert_eq!(Format::Q6_K.bytes(1, 100), None);
        assert_eq!(Format::F32.bytes(usize::MAX, 2), None);
    }
}
