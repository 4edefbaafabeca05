//! Interleaving: each field of eight blocks is adjacent, so that it begins at a multiple of 16 bytes. The definition of the
//! interleaved formats (`_X8`), which exist on the GPU only.
//!
//! | eight blocks of | bytes | fields, eight of each |
//! |---|---|---|
//! | Q8_0 | 272 | 32 signed bytes; f16 `d` |
//! | Q4_0 | 144 | 16 bytes of nibbles; f16 `d` |
//! | Q6_K | 1680 | 128 bytes of low nibbles; 64 bytes of high pairs; 16 signed scales; f16 `d` |
//!
//! A matrix is interleaved as a whole: its blocks in the order of the file, the last eight filled up with zeros. A matrix that
//! is bound in row shards is interleaved shard by shard.

use std::ops::Range;
use wgoose_graph::Format;

/// Interleaves all blocks of a matrix; `format` is the one in the file.
///
/// # Panics
/// If the format is not interleaved, or if `blocks` and `out` are not the same whole number of blocks, of which `out` has
/// whole groups of eight.
pub fn interleave(format: Format, blocks: &[u8], out: &mut [u8]) {
    let count = count(format, blocks.len(), out.len());
    out.fill(0);
    for (in_blocks, interleaved) in fields(format, count) {
        out[interleaved].copy_from_slice(&blocks[in_blocks]);
    }
}

/// The inverse of [`interleave`]: the blocks of a matrix as they are in a file.
///
/// # Panics
/// As [`interleave`].
pub fn deinterleave(format: Format, interleaved: &[u8], out: &mut [u8]) {
    let count = count(format, out.len(), interleaved.len());
    for (in_blocks, at) in fields(format, count) {
        out[in_blocks].copy_from_slice(&interleaved[at]);
    }
}

/// Number of blocks.
fn count(format: Format, block_bytes: usize, bytes: usize) -> usize {
    let count = block_bytes / format.block_bytes();
    let wanted = format.interleaved().and_then(|f| f.bytes(count, f.block_weights()));
    let whole = block_bytes.is_multiple_of(format.block_bytes()) && wanted == Some(bytes);
    assert!(whole, "{block_bytes} bytes of {format} blocks do not fill {bytes} bytes interleaved");
    count
}

/// Where every field of `count` blocks is: in the file, and interleaved.
fn fields(format: Format, count: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let of_block: &[Range<usize>] = match format {
        Format::Q8_0 => &[2..34, 0..2],
        Format::Q4_0 => &[2..18, 0..2],
        Format::Q6_K => &[0..128, 128..192, 192..208, 208..210],
        _ => &[],
    };
    (0..count).flat_map(move |block| {
        let first = block * format.block_bytes();
        let (group, place) = (block / Format::INTERLEAVED_BLOCKS, block % Format::INTERLEAVED_BLOCKS);
        let mut column = group * Format::INTERLEAVED_BLOCKS * format.block_bytes();
        of_block.iter().map(move |field| {
            let interleaved = column + place * field.len();
            column += Format::INTERLEAVED_BLOCKS * field.len();
            (first + field.start..first + field.end, interleaved..interleaved + field.len())
        })
    })
}
