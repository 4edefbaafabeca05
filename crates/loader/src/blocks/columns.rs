//! Columns: what belongs to one column of a matrix stands together, for all rows. The definition of the formats in
//! columns, which exist on the GPU only.
//!
//! Rows are taken eight at a time. The sections of a matrix follow each other; each has an entry for every (place, eight),
//! the eights of one place side by side, a place being a column or what shares a number there:
//!
//! | format | sections: bits of an entry (eight rows), one entry for each |
//! |---|---|
//! | F16 | 128 per column |
//! | Q8_0 | codes: 64 per column; f16 `d`: 128 per 32 columns |
//! | Q4_0 | nibbles: 32 per column; f16 `d`: 128 per 32 columns |
//! | Q4_K | nibbles: 32 per column; nibbles of the scales, nibbles of the minima, high pairs of both: 96 per 32 columns; f16 `d`, f16 `dmin`: 256 per 256 columns |
//! | Q6_K | low nibbles: 32 per column; high pairs: 32 per two columns; scales: 64 per 16 columns; f16 `d`: 128 per 256 columns |
//!
//! Nibbles of eight rows make a word: row r of the first four is the low nibble of byte r, row 4 + r the high one. Pairs
//! lie where the nibble of their row would, that of the scale (of the even column) in the lower two bits or bytes first.
//! A matrix that is bound in windows is brought into columns window by window.

use wgoose_graph::Format;

/// Brings the blocks of a matrix with rows of `cols` weights into columns; `format` is the one in the file.
///
/// # Panics
/// If the format has no columns, or if `blocks` is no whole number of rows that fills `out`.
pub fn to_columns(format: Format, cols: usize, blocks: &[u8], out: &mut [u8]) {
    out.fill(0);
    each_field(format, cols, blocks.len(), out.len(), |in_blocks, in_columns, bits| {
        copy(blocks, in_blocks, out, in_columns, bits);
    });
}

/// The inverse of [`to_columns`]: the blocks of a matrix as they lie in a file.
///
/// # Panics
/// As [`to_columns`].
pub fn from_columns(format: Format, cols: usize, columns: &[u8], out: &mut [u8]) {
    out.fill(0);
    each_field(format, cols, out.len(), columns.len(), |in_blocks, in_columns, bits| {
        copy(columns, in_columns, out, in_blocks, bits);
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
    eights: usize,
}

impl Section {
    /// The first bit of an entry.
    fn at(&self, place: usize, eight: usize) -> usize {
        self.begin + (place * self.eights + eight) * self.bits
    }

    /// The section behind this one of `places` places.
    fn then(&self, places: usize, bits: usize) -> Section {
        Section { begin: self.at(places, 0), bits, eights: self.eights }
    }
}

/// Where the nibble of one of eight rows lies in its word.
const fn nibble(row: usize) -> usize {
    row % 4 * 8 + row / 4 * 4
}

/// Calls `put` with where every field is, among the blocks and among the columns, and its bits.
fn each_field(
    format: Format,
    cols: usize,
    block_len: usize,
    column_len: usize,
    mut put: impl FnMut(usize, usize, usize),
) {
    let blocks_of_row = cols / format.block_weights();
    let row_bytes = blocks_of_row * format.block_bytes();
    let rows = block_len.checked_div(row_bytes).unwrap_or(0);
    let fills = format.in_columns().and_then(|f| f.bytes(rows, cols)) == Some(column_len);
    assert!(
        fills && rows * row_bytes == block_len,
        "{block_len} bytes of {format} blocks do not fill {column_len} bytes"
    );
    let codes = |bits| Section { begin: 0, bits, eights: rows.div_ceil(Format::COLUMN_ROWS) };
    for row in 0..rows {
        let (eight, of) = (row / Format::COLUMN_ROWS, row % Format::COLUMN_ROWS);
        for index in 0..blocks_of_row {
            let block = (row * blocks_of_row + index) * format.block_bytes() * 8;
            let first = index * format.block_weights();
            match format {
                Format::F16 => put(block, codes(128).at(first, eight) + of * 16, 16),
                Format::Q8_0 => {
                    let codes = codes(64);
                    for i in 0..32 {
                        put(block + 16 + i * 8, codes.at(first + i, eight) + of * 8, 8);
                    }
                    put(block, codes.then(cols, 128).at(index, eight) + of * 16, 16);
                }
                Format::Q4_0 => {
                    let codes = codes(32);
                    for i in 0..32 {
                        let source = block + 16 + i % 16 * 8 + i / 16 * 4;
                        put(source, codes.at(first + i, eight) + nibble(of), 4);
                    }
                    put(block, codes.then(cols, 128).at(index, eight) + of * 16, 16);
                }
                Format::Q4_K => {
                    let codes = codes(32);
                    for i in 0..256 {
                        let source = block + (16 + i / 64 * 32 + i % 32) * 8 + i % 64 / 32 * 4;
                        put(source, codes.at(first + i, eight) + nibble(of), 4);
                    }
                    let sixes = codes.then(cols, 96);
                    for sub in 0..8 {
                        // Low four bits and high two of scale and minimum: see `affine`.
                        let (scale, minimum) = match sub {
                            0..4 => ([(4 + sub) * 8, (4 + sub) * 8 + 4], [(8 + sub) * 8, (8 + sub) * 8 + 4]),
                            _ => ([(8 + sub) * 8, sub * 8 + 6], [(8 + sub) * 8 + 4, (4 + sub) * 8 + 6]),
                        };
                        let at = sixes.at(index * 8 + sub, eight) + nibble(of);
                        put(block + scale[0], at, 4);
                        put(block + minimum[0], at + 32, 4);
                        put(block + scale[1], at + 64, 2);
                        put(block + minimum[1], at + 66, 2);
                    }
                    let at = sixes.then(cols / 32, 256).at(index, eight) + of * 16;
                    put(block, at, 16);
                    put(block + 16, at + 128, 16);
                }
                Format::Q6_K => {
                    let low = codes(32);
                    let high = low.then(cols, 32);
                    for i in 0..256 {
                        let (half, part) = (i / 128, i % 128 / 32);
                        let source = block + (half * 64 + part % 2 * 32 + i % 32) * 8 + part / 2 * 4;
                        put(source, low.at(first + i, eight) + nibble(of), 4);
                        let source = block + (128 + half * 32 + i % 32) * 8 + part * 2;
                        let column = first + i;
                        put(source, high.at(column / 2, eight) + column % 2 * 4 + of / 4 * 2 + of % 4 * 8, 2);
                    }
                    let scales = high.then(cols / 2, 64);
                    for run in 0..16 {
                        put(block + (192 + run) * 8, scales.at(index * 16 + run, eight) + of * 8, 8);
                    }
                    put(block + 208 * 8, scales.then(cols / 16, 128).at(index, eight) + of * 16, 16);
                }
                _ => {}
            }
        }
    }
}
