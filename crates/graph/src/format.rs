//! Weight formats: how the numbers of a tensor lie in a file, block by block, and on the GPU, where some formats may be
//! repacked: their blocks in tiles, or a whole matrix in columns.

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
    /// [`Format::Q8_0`] in tiles of 272 bytes: 8 times 32 signed bytes, then 8 f16 scales.
    Q8_0T,
    /// [`Format::Q4_0`] in tiles of 144 bytes: 8 times 16 bytes of nibbles, then 8 f16 scales.
    Q4_0T,
    /// [`Format::Q6_K`] in tiles of 1680 bytes: 8 times 128 bytes of low nibbles, 8 times 64 of high pairs, 8 times 16
    /// signed scales, then 8 f16 super scales.
    Q6_KT,
    /// [`Format::F16`] in columns.
    F16C,
    /// [`Format::Q8_0`] in columns.
    Q8_0C,
    /// [`Format::Q4_0`] in columns.
    Q4_0C,
    /// [`Format::Q4_K`] in columns.
    Q4_KC,
    /// [`Format::Q6_K`] in columns.
    Q6_KC,
}

impl Format {
    /// Every format that a model file can hold, in a fixed order.
    pub const IN_FILES: [Format; 8] =
        [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0, Format::Q4_K, Format::Q5_K, Format::Q6_K];

    /// Every format that any product can read: those of files, then the tiled ones.
    pub const ON_GPU: [Format; 11] = [
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::Q8_0,
        Format::Q4_0,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
        Format::Q8_0T,
        Format::Q4_0T,
        Format::Q6_KT,
    ];

    /// The formats in columns: what belongs to one column of a matrix, the weights of all rows for one channel of the
    /// input, stands together, so that a column can be left out. Blocks share scales as they did; the scales of all rows
    /// for one block of columns stand together too. Only a matrix that meets zeros is worth it, and no file holds one.
    pub const IN_COLUMNS: [Format; 5] = [Format::F16C, Format::Q8_0C, Format::Q4_0C, Format::Q4_KC, Format::Q6_KC];

    /// Rows whose weights of one column are packed together. The rows that the last eight lack are zeros.
    pub const COLUMN_ROWS: usize = 8;

    /// Blocks in a tile. In a file a block of some formats begins at any multiple of two bytes. In a tile the same field
    /// of eight blocks stands together, so that each field begins at a multiple of 16 bytes. Tiles run over the whole
    /// matrix, row after row; the blocks that its last tile lacks are zeros.
    pub const TILE_BLOCKS: usize = 8;

    /// This format in tiles; `None` where the blocks are aligned already, and for tiled formats.
    pub const fn tiled(self) -> Option<Format> {
        match self {
            Format::Q8_0 => Some(Format::Q8_0T),
            Format::Q4_0 => Some(Format::Q4_0T),
            Format::Q6_K => Some(Format::Q6_KT),
            _ => None,
        }
    }

    /// This format in columns; `None` where there is no such layout, and for formats that are no file's.
    pub const fn in_columns(self) -> Option<Format> {
        match self {
            Format::F16 => Some(Format::F16C),
            Format::Q8_0 => Some(Format::Q8_0C),
            Format::Q4_0 => Some(Format::Q4_0C),
            Format::Q4_K => Some(Format::Q4_KC),
            Format::Q6_K => Some(Format::Q6_KC),
            _ => None,
        }
    }

    /// The format whose blocks these are: of a repacked format the one it has in a file, of any other itself.
    pub const fn as_in_file(self) -> Format {
        match self {
            Format::Q8_0T | Format::Q8_0C => Format::Q8_0,
            Format::Q4_0T | Format::Q4_0C => Format::Q4_0,
            Format::Q6_KT | Format::Q6_KC => Format::Q6_K,
            Format::Q4_KC => Format::Q4_K,
            Format::F16C => Format::F16,
            in_file => in_file,
        }
    }

    /// Whether a matrix lies column by column. No file holds such a format.
    pub const fn is_in_columns(self) -> bool {
        matches!(self, Format::F16C | Format::Q8_0C | Format::Q4_0C | Format::Q4_KC | Format::Q6_KC)
    }

    /// Whether the GPU makes it of what a file holds, in tiles or in columns.
    pub const fn is_repacked(self) -> bool {
        self.is_tiled() || self.is_in_columns()
    }

    /// Whether blocks are repacked in tiles. No file holds such a format.
    pub const fn is_tiled(self) -> bool {
        matches!(self, Format::Q8_0T | Format::Q4_0T | Format::Q6_KT)
    }

    /// Weights in one block (1 for the float formats).
    pub const fn block_weights(self) -> usize {
        match self.as_in_file() {
            Format::Q8_0 | Format::Q4_0 => 32,
            Format::Q4_K | Format::Q5_K | Format::Q6_K => 256,
            _ => 1,
        }
    }

    /// Bytes of one block, repacked or not.
    pub const fn block_bytes(self) -> usize {
        match self.as_in_file() {
            Format::F32 => 4,
            Format::Q8_0 => 34,
            Format::Q4_0 => 18,
            Format::Q4_K => 144,
            Format::Q5_K => 176,
            Format::Q6_K => 210,
            _ => 2,
        }
    }

    /// Whether weights are stored as integers with shared scales.
    pub const fn is_quantised(self) -> bool {
        self.block_weights() > 1
    }

    /// Bytes of a matrix of `rows` rows of `cols` weights, with the padding of the last tile or of the last eight rows;
    /// `None` where `cols` is no multiple of the block or the size overflows.
    pub fn bytes(self, rows: usize, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_weights()) {
            return None;
        }
        let rows = if self.is_in_columns() { rows.checked_next_multiple_of(Format::COLUMN_ROWS)? } else { rows };
        let blocks = rows.checked_mul(cols / self.block_weights())?;
        let stored = if self.is_tiled() { blocks.checked_next_multiple_of(Format::TILE_BLOCKS)? } else { blocks };
        stored.checked_mul(self.block_bytes())
    }

    /// The name used in GGUF, plans and file names; tiled formats append a T, those in columns a C.
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
            Format::Q8_0T => "Q8_0T",
            Format::Q4_0T => "Q4_0T",
            Format::Q6_KT => "Q6_KT",
            Format::F16C => "F16C",
            Format::Q8_0C => "Q8_0C",
            Format::Q4_0C => "Q4_0C",
            Format::Q4_KC => "Q4_KC",
            Format::Q6_KC => "Q6_KC",
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
#[error(
    "unknown weight format '{0}': expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K, Q8_0T, Q4_0T, Q6_KT, \
     F16C, Q8_0C, Q4_0C, Q4_KC, Q6_KC"
)]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut all = Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS);
        all.find(|f| f.name().eq_ignore_ascii_case(s)).ok_or_else(|| UnknownFormat(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for f in Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS) {
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

    #[test]
    fn tiles_run_over_the_whole_matrix() {
        // Three rows of three blocks: nine blocks, two tiles.
        assert_eq!(Format::Q8_0T.bytes(3, 96), Some(2 * 272));
        assert_eq!(Format::Q4_0T.bytes(2, 128), Some(144));
        assert_eq!(Format::Q6_KT.bytes(1, 256), Some(1680));
        assert_eq!(Format::Q6_KT.bytes(1, 128), None);
        assert_eq!(Format::Q8_0T.bytes(usize::MAX / 34, 32), None);
    }

    #[test]
    fn columns_fill_up_the_last_eight_rows() {
        for f in Format::IN_COLUMNS {
            assert!(f.is_in_columns() && f.is_repacked() && !f.is_tiled(), "{f}");
            assert_eq!(f.as_in_file().in_columns(), Some(f));
            assert_eq!(f.bytes(16, 256), f.as_in_file().bytes(16, 256), "{f}");
            assert_eq!(f.bytes(9, 512), f.as_in_file().bytes(16, 512), "{f}");
        }
    }

    #[test]
    fn every_tiled_format_has_a_format_in_files() {
        for f in Format::ON_GPU {
            assert_eq!(f.is_tiled(), !Format::IN_FILES.contains(&f), "{f}");
            assert_eq!(f.is_tiled(), f.as_in_file().tiled() == Some(f), "{f}");
            assert!(Format::IN_FILES.contains(&f.as_in_file()), "{f}");
            assert_eq!(
                (f.block_weights(), f.block_bytes()),
                (f.as_in_file().block_weights(), f.as_in_file().block_bytes())
            );
        }
    }
}
