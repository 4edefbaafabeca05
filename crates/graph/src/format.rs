//! Weight formats: how the numbers of a tensor are stored in a file, block by block, and on the GPU, where some formats may be
//! repacked: their blocks interleaved by eight, or a whole matrix K-major. All that is known of a format is its row in the table
//! ([`FormatInfo`]);
//! its codec is in the loader, its readers are in `kernels-wgsl/lib/quant/FORMAT.wgsl`.

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
    /// [`Format::Q8_0`] interleaved by eight blocks, 272 bytes: 8 times 32 signed bytes, then 8 f16 scales.
    Q8_0_X8,
    /// [`Format::Q4_0`] interleaved by eight blocks, 144 bytes: 8 times 16 bytes of nibbles, then 8 f16 scales.
    Q4_0_X8,
    /// [`Format::Q6_K`] interleaved by eight blocks, 1680 bytes: 8 times 128 bytes of low nibbles, 8 times 64 of high pairs,
    /// 8 times 16 signed scales, then 8 f16 super scales.
    Q6_K_X8,
    /// [`Format::F16`], K-major.
    F16_KM,
    /// [`Format::Q8_0`], K-major.
    Q8_0_KM,
    /// [`Format::Q4_0`], K-major.
    Q4_0_KM,
    /// [`Format::Q4_K`], K-major.
    Q4_K_KM,
    /// [`Format::Q6_K`], K-major.
    Q6_K_KM,
}

/// How a matrix is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As in a model file, row after row.
    File,
    /// The same field of eight blocks is adjacent, so that each field begins at a multiple of 16 bytes, where in a file it may
    /// begin at any multiple of two. Groups of eight run over the whole matrix, row after row; the blocks that the last one
    /// lacks are zeros.
    Interleaved,
    /// What one input channel (a column) needs of all rows is adjacent, eight rows packed together, so that a channel can be
    /// skipped. Blocks share scales as they did; the scales of all rows for one block of columns are adjacent too. The rows that
    /// the last eight lack are zeros.
    KMajor,
}

/// A row of the table of formats.
#[derive(Clone, Copy, Debug)]
pub struct FormatInfo {
    /// The format.
    pub format: Format,
    /// As in GGUF, plans and file names.
    pub name: &'static str,
    /// ggml's number for its blocks (`ggml.h`, `enum ggml_type`).
    pub ggml_type: u32,
    /// Weights in a block: 1 for float formats.
    pub block_weights: usize,
    /// Bytes of a block, repacked or not.
    pub block_bytes: usize,
    /// How it is laid out.
    pub layout: Layout,
    /// The format that it has in a file.
    pub in_file: Format,
}

const fn in_file(format: Format, name: &'static str, ggml: u32, weights: usize, bytes: usize) -> FormatInfo {
    let layout = Layout::File;
    FormatInfo { format, name, ggml_type: ggml, block_weights: weights, block_bytes: bytes, layout, in_file: format }
}

const fn repacked(format: Format, name: &'static str, layout: Layout, row: FormatInfo) -> FormatInfo {
    FormatInfo { format, name, layout, ..row }
}

const F32: FormatInfo = in_file(Format::F32, "F32", 0, 1, 4);
const F16: FormatInfo = in_file(Format::F16, "F16", 1, 1, 2);
const BF16: FormatInfo = in_file(Format::BF16, "BF16", 30, 1, 2);
const Q8_0: FormatInfo = in_file(Format::Q8_0, "Q8_0", 8, 32, 34);
const Q4_0: FormatInfo = in_file(Format::Q4_0, "Q4_0", 2, 32, 18);
const Q4_K: FormatInfo = in_file(Format::Q4_K, "Q4_K", 12, 256, 144);
const Q5_K: FormatInfo = in_file(Format::Q5_K, "Q5_K", 13, 256, 176);
const Q6_K: FormatInfo = in_file(Format::Q6_K, "Q6_K", 14, 256, 210);

/// Every format, in the order of [`Format`].
pub(crate) const TABLE: [FormatInfo; 16] = [
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_K,
    Q5_K,
    Q6_K,
    repacked(Format::Q8_0_X8, "Q8_0_X8", Layout::Interleaved, Q8_0),
    repacked(Format::Q4_0_X8, "Q4_0_X8", Layout::Interleaved, Q4_0),
    repacked(Format::Q6_K_X8, "Q6_K_X8", Layout::Interleaved, Q6_K),
    repacked(Format::F16_KM, "F16_KM", Layout::KMajor, F16),
    repacked(Format::Q8_0_KM, "Q8_0_KM", Layout::KMajor, Q8_0),
    repacked(Format::Q4_0_KM, "Q4_0_KM", Layout::KMajor, Q4_0),
    repacked(Format::Q4_K_KM, "Q4_K_KM", Layout::KMajor, Q4_K),
    repacked(Format::Q6_K_KM, "Q6_K_KM", Layout::KMajor, Q6_K),
];

impl Format {
    /// Rows whose weights of one column are packed together in a K-major matrix.
    pub const PANEL_ROWS: usize = 8;

    /// Blocks whose fields are interleaved.
    pub const INTERLEAVED_BLOCKS: usize = 8;

    /// Its row in the table.
    pub const fn info(self) -> &'static FormatInfo {
        &TABLE[self as usize]
    }

    /// Every format.
    pub fn all() -> impl Iterator<Item = Format> + Clone {
        TABLE.iter().map(|info| info.format)
    }

    /// Every format that a model file can hold.
    pub fn in_files() -> impl Iterator<Item = Format> + Clone {
        Format::all().filter(|f| f.info().layout == Layout::File)
    }

    /// The K-major formats. Only a matrix whose x has zeros is worth one.
    pub fn all_k_major() -> impl Iterator<Item = Format> + Clone {
        Format::all().filter(|f| f.is_k_major())
    }

    /// This format of a file in another layout; `None` where there is none, and for formats that no file holds.
    fn laid_out(self, layout: Layout) -> Option<Format> {
        Format::all().find(|f| f.info().in_file == self && f.info().layout == layout)
    }

    /// This format interleaved by eight; `None` where the blocks are aligned already.
    pub fn interleaved(self) -> Option<Format> {
        self.laid_out(Layout::Interleaved)
    }

    /// This format K-major; `None` where there is no such layout.
    pub fn k_major(self) -> Option<Format> {
        self.laid_out(Layout::KMajor)
    }

    /// The format whose blocks these are: of a repacked format the one that it has in a file, of any other itself.
    pub const fn as_in_file(self) -> Format {
        self.info().in_file
    }

    /// Whether a matrix is laid out column by column. No file holds such a format.
    pub const fn is_k_major(self) -> bool {
        matches!(self.info().layout, Layout::KMajor)
    }

    /// Whether blocks are interleaved. No file holds such a format.
    pub const fn is_interleaved(self) -> bool {
        matches!(self.info().layout, Layout::Interleaved)
    }

    /// Whether the GPU makes it of what a file holds.
    pub const fn is_repacked(self) -> bool {
        !matches!(self.info().layout, Layout::File)
    }

    /// Weights in one block (1 for the float formats).
    pub const fn block_weights(self) -> usize {
        self.info().block_weights
    }

    /// Bytes of one block, repacked or not.
    pub const fn block_bytes(self) -> usize {
        self.info().block_bytes
    }

    /// Whether weights are stored as integers with shared scales.
    pub const fn is_quantised(self) -> bool {
        self.block_weights() > 1
    }

    /// Bytes of a matrix of `rows` rows of `cols` weights, with the padding of the last eight blocks or rows; `None` where
    /// `cols` is no multiple of the block or the size overflows.
    pub fn bytes(self, rows: usize, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_weights()) {
            return None;
        }
        let rows = if self.is_k_major() { rows.checked_next_multiple_of(Format::PANEL_ROWS)? } else { rows };
        let blocks = rows.checked_mul(cols / self.block_weights())?;
        let stored = match self.is_interleaved() {
            true => blocks.checked_next_multiple_of(Format::INTERLEAVED_BLOCKS)?,
            false => blocks,
        };
        stored.checked_mul(self.block_bytes())
    }

    /// The name used in GGUF, plans and file names; interleaved formats append _X8, K-major ones _KM.
    pub const fn name(self) -> &'static str {
        self.info().name
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Format`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(pub String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Format::all().map(Format::name).collect();
        write!(f, "unknown weight format '{}': expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Format::all().find(|f| f.name().eq_ignore_ascii_case(s)).ok_or_else(|| UnknownFormat(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_format_at_its_place() {
        for (i, info) in TABLE.iter().enumerate() {
            let f = info.format;
            assert_eq!((f as usize, f.info().name), (i, info.name));
            assert_eq!(f.name().to_lowercase().parse::<Format>(), Ok(f));
            assert!(!f.as_in_file().is_repacked(), "{f}");
            let repacked = [f.as_in_file().interleaved(), f.as_in_file().k_major()];
            assert_eq!(f.is_repacked(), repacked.contains(&Some(f)), "{f}");
        }
        assert!("Q4_X".parse::<Format>().unwrap_err().to_string().contains("Q6_K_KM"));
    }

    #[test]
    fn sizes_follow_blocks() {
        assert_eq!(Format::Q4_K.bytes(2, 512), Some(576));
        assert_eq!(Format::Q6_K.bytes(1, 100), None);
        assert_eq!(Format::F32.bytes(usize::MAX, 2), None);
    }

    #[test]
    fn interleaving_runs_over_the_whole_matrix() {
        // Three rows of three blocks: nine blocks, two groups of eight.
        assert_eq!(Format::Q8_0_X8.bytes(3, 96), Some(2 * 272));
        assert_eq!(Format::Q4_0_X8.bytes(2, 128), Some(144));
        assert_eq!(Format::Q6_K_X8.bytes(1, 256), Some(1680));
        assert_eq!(Format::Q6_K_X8.bytes(1, 128), None);
        assert_eq!(Format::Q8_0_X8.bytes(usize::MAX / 34, 32), None);
    }

    #[test]
    fn k_major_fills_up_the_last_eight_rows() {
        for f in Format::all_k_major() {
            assert_eq!(f.bytes(16, 256), f.as_in_file().bytes(16, 256), "{f}");
            assert_eq!(f.bytes(9, 512), f.as_in_file().bytes(16, 512), "{f}");
        }
    }
}
