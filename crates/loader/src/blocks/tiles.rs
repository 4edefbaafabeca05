//! Tiles: eight blocks with their fields side by side, so that each field begins at a multiple of 16 bytes. The
//! definition of the tiled formats, which exist on the GPU only.
//!
//! | tile of | bytes | fields, eight of each |
//! |---|---|---|
//! | Q8_0 | 272 | 32 signed bytes; f16 `d` |
//! | Q4_0 | 144 | 16 bytes of nibbles; f16 `d` |
//! | Q6_K | 1680 | 128 bytes of low nibbles; 64 bytes of high pairs; 16 signed scales; f16 `d` |
//!
//! A matrix is tiled as a whole: its blocks in the order of the file, the last tile filled up with zeros. A matrix that
//! is bound in windows is tiled window by window.

use std::ops::Range;
use wgoose_graph::Format;

/// Repacks all blocks of a matrix in tiles; `format` is the one in the file.
///
/// # Panics
/// If the format has no tiles, or if `blocks` and `out` are not the same whole number of blocks, of which `out` has
/// whole tiles.
pub fn tile(format: Format, blocks: &[u8], out: &mut [u8]) {
    let count = count(format, blocks.len(), out.len());
    out.fill(0);
    for (in_blocks, in_tiles) in fields(format, count) {
        out[in_tiles].copy_from_slice(&blocks[in_blocks]);
    }
}

/// The inverse of [`tile`]: the blocks of a matrix as they lie in a file.
///
/// # Panics
/// As [`tile`].
pub fn untile(format: Format, tiles: &[u8], out: &mut [u8]) {
    let count = count(format, out.len(), tiles.len());
    for (in_blocks, in_tiles) in fields(format, count) {
        out[in_blocks].copy_from_slice(&tiles[in_tiles]);
    }
}

/// Number of blocks.
fn count(format: Format, block_bytes: usize, tile_bytes: usize) -> usize {
    let count = block_bytes / format.block_bytes();
    let tiled = format.tiled().and_then(|tiled| tiled.bytes(count, tiled.block_weights()));
    let whole = block_bytes.is_multiple_of(format.block_bytes()) && tiled == Some(tile_bytes);
    assert!(whole, "{block_bytes} bytes of {format} blocks do not fill {tile_bytes} bytes of tiles");
    count
}

/// Where every field of `count` blocks is: among the blocks, and among the tiles.
fn fields(format: Format, count: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let of_block: &[Range<usize>] = match format {
        Format::Q8_0 => &[2..34, 0..2],
        Format::Q4_0 => &[2..18, 0..2],
        Format::Q6_K => &[0..128, 128..192, 192..208, 208..210],
        _ => &[],
    };
    (0..count).flat_map(move |block| {
        let first = block * format.block_bytes();
        let (tile, place) = (block / Format::TILE_BLOCKS, block % Format::TILE_BLOCKS);
        let mut column = tile * Format::TILE_BLOCKS * format.block_bytes();
        of_block.iter().map(move |field| {
            let in_tiles = column + place * field.len();
            column += Format::TILE_BLOCKS * field.len();
            (first + field.start..first + field.end, in_tiles..in_tiles + field.len())
        })
    })
}
