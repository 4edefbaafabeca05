//! K-major: what belongs to one column of a matrix is adjacent, for all rows. The definition of the K-major formats (`_KM`),
//! which exist on the GPU only.
//!
//! Rows are taken in panels of eight. The sections of a matrix follow each other; each has an entry for every (place, panel),
//! the panels of one place side by side, a place being a column or what shares a number there:
//!
//! | format | sections: bits of an entry (eight rows), one entry for each |
//! |---|---|
//! | F16 | 128 per column |
//! | Q8_0 | quants: 64 per column; f16 `d`: 128 per 32 columns |
//! | Q4_0 | nibbles: 32 per column; f16 `d`: 128 per 32 columns |
//! | Q4_K | nibbles: 32 per column; nibbles of the scales, nibbles of the mins, high pairs of both: 96 per 32 columns; f16 `d`, f16 `dmin`: 256 per 256 columns |
//! | Q6_K | low nibbles: 32 per column; high pairs: 32 per two columns; scales: 64 per 16 columns; f16 `d`: 128 per 256 columns |
//!
//! Nibbles of eight rows make a word: row r of the first four is the low nibble of byte r, row 4 + r the high one. Pairs
//! are where the nibble of their row would, that of the scale (of the even column) in the lower two bits or bytes first.
//! A matrix that is bound in row shards is laid out shard by shard.

use wgoose_graph::Format;

/// Brings the blocks of a matrix with rows of `cols` weights into columns; `format` is the one in the file.
///
/// # Panics
/// If the format has no such layout, or if `blocks` is no whole number of rows that fills `out`.
pub fn to_k_major(format: Format, cols: usize, blocks: &[u8], out: &mut [u8]) {
    out.fill(0);
    each_field(format, cols, blocks.len(), out.len(), |in_blocks, in_k_major, bits| {
        copy(blocks, in_blocks, out, in_k_major, bits);
    });
}

/// The inverse of [`to_k_major`]: the blocks of a matrix as they are in a file.
///
/// # Panics
/// As [`to_k_major`].
pub fn from_k_major(format: Format, cols: usize, k_major: &[u8], out: &mut [u8]) {
    out.fill(0);
    each_field(format, cols, out.len(), k_major.len(), |in_blocks, in_k_major, bits| {
        copy(k_major, in_k_major, out, in_blocks, bits);
    });
}

/// Copies some bits, none of which is set at their goal: whole bytes, or some within a byte.
fn copy(from: &[u8], source: usize, to: &mut [u8], goal: usize, bits: usize) {
    if bits >= 8 {
        to[goal / 8..][..bits / 8].copy_from_slice(&from[source / 8..][..bits / 8]);
    } else {
        to[goal / 8] |= ((from[source / 8] >> (source % 8)) & ((1 << bits) - 1)) << (goal % 8);
    }
}

/// Where entries of a section begin, in bits, and what has one.
struct Section {
    begin: usize,
    bits: usize,
    panels: usize,
}

impl Section {
    /// The first bit of an entry.
    fn at(&self, place: usize, panel: usize) -> usize {
        self.begin + (place * self.panels + panel) * self.bits
    }

    /// The section behind this one of `places` places.
    fn then(&self, places: usize, bits: usize) -> Section {
        Section { begin: self.at(places, 0), bits, panels: self.panels }
    }
}

/// Where the nibble of one of eight rows is in its word.
const fn nibble(row: usize) -> usize {
    row % 4 * 8 + row / 4 * 4
}

/// Calls `put` with where every field is, in the file and K-major, and its bits.
fn each_field(
    format: Format,
    cols: usize,
    block_len: usize,
    k_major_len: usize,
    mut put: impl FnMut(usize, usize, usize),
) {
    let blocks_of_row = cols / format.block_weights();
    let row_bytes = blocks_of_row * format.block_bytes();
    let rows = block_len.checked_div(row_bytes).unwrap_or(0);
    let fills = format.k_major().and_then(|f| f.bytes(rows, cols)) == Some(k_major_len);
    assert!(
        fills && rows * row_bytes == block_len,
        "{block_len} bytes of {format} blocks do not fill {k_major_len} bytes"
    );
    let quants = |bits| Section { begin: 0, bits, panels: rows.div_ceil(Format::PANEL_ROWS) };
    for row in 0..rows {
        let (panel, of) = (row / Format::PANEL_ROWS, row % Format::PANEL_ROWS);
        for index in 0..blocks_of_row {
            let block = (row * blocks_of_row + index) * format.block_bytes() * 8;
            let first = index * format.block_weights();
            match format {
                Format::F16 => put(block, quants(128).at(first, panel) + of * 16, 16),
                Format::Q8_0 => {
                    let quants = quants(64);
                    for i in 0..32 {
                        put(block + 16 + i * 8, quants.at(first + i, panel) + of * 8, 8);
                    }
                    put(block, quants.then(cols, 128).at(index, panel) + of * 16, 16);
                }
                Format::Q4_0 => {
                    let quants = quants(32);
                    for i in 0..32 {
                        let source = block + 16 + i % 16 * 8 + i / 16 * 4;
                        put(source, quants.at(first + i, panel) + nibble(of), 4);
                    }
                    put(block, quants.then(cols, 128).at(index, panel) + of * 16, 16);
                }
                Format::Q4_K => {
                    let quants = quants(32);
                    for i in 0..256 {
                        let source = block + (16 + i / 64 * 32 + i % 32) * 8 + i % 64 / 32 * 4;
                        put(source, quants.at(first + i, panel) + nibble(of), 4);
                    }
                    let sixes = quants.then(cols, 96);
                    for sub in 0..8 {
                        // Low four bits and high two of scale and min: see `affine`.
                        let (scale, min) = match sub {
                            0..4 => ([(4 + sub) * 8, (4 + sub) * 8 + 4], [(8 + sub) * 8, (8 + sub) * 8 + 4]),
                            _ => ([(8 + sub) * 8, sub * 8 + 6], [(8 + sub) * 8 + 4, (4 + sub) * 8 + 6]),
                        };
                        let at = sixes.at(index * 8 + sub, panel) + nibble(of);
                        put(block + scale[0], at, 4);
                        put(block + min[0], at + 32, 4);
                        put(block + scale[1], at + 64, 2);
                        put(block + min[1], at + 66, 2);
                    }
                    let at = sixes.then(cols / 32, 256).at(index, panel) + of * 16;
                    put(block, at, 16);
                    put(block + 16, at + 128, 16);
                }
                Format::Q6_K => {
                    let low = quants(32);
                    let high = low.then(cols, 32);
                    for i in 0..256 {
                        let (half, part) = (i / 128, i % 128 / 32);
                        let source = block + (half * 64 + part % 2 * 32 + i % 32) * 8 + part / 2 * 4;
                        put(source, low.at(first + i, panel) + nibble(of), 4);
                        let source = block + (128 + half * 32 + i % 32) * 8 + part * 2;
                        let column = first + i;
                        put(source, high.at(column / 2, panel) + column % 2 * 4 + of / 4 * 2 + of % 4 * 8, 2);
                    }
                    let scales = high.then(cols / 2, 64);
                    for group in 0..16 {
                        put(block + (192 + group) * 8, scales.at(index * 16 + group, panel) + of * 8, 8);
                    }
                    put(block + 208 * 8, scales.then(cols / 16, 128).at(index, panel) + of * 16, 16);
                }
                _ => {}
            }
        }
    }
}
