// Q6_K: for each column a word of low nibbles; for each two columns a word of high pairs; for each 16 columns two words of
// scales; for each block four words of d.
#import device/repack/k_major

const BLOCK: u32 = 210u;
const BLOCK_WEIGHTS: u32 = 256u;

fn k_major_word(panel: Panel, i: u32) -> Word {
    let low = params.cols;
    if i < low {
        let part = i % 128u / 32u;
        let at = i / 256u * BLOCK + i % 256u / 128u * 64u + part % 2u * 32u + i % 32u;
        return Word(entry(i, panel, 1u, 0u), panel_nibbles(panel, at, part / 2u * 4u, 15u));
    }
    let high = low + params.cols / 2u;
    if i < high {
        let two = i - low;
        return Word(low * params.panels + entry(two, panel, 1u, 0u), pairs(panel, 2u * two) | (pairs(panel, 2u * two + 1u) << 4u));
    }
    let scales = high + params.cols / 8u;
    if i < scales {
        let group = (i - high) / 2u;
        let four = (i - high) % 2u;
        let at = group / 16u * BLOCK + 192u + group % 16u;
        return Word(high * params.panels + entry(group, panel, 2u, four), four_bytes(panel, four * 4u, at));
    }
    let block = (i - scales) / 4u;
    let pair = (i - scales) % 4u;
    return Word(scales * params.panels + entry(block, panel, 4u, pair), two_f16(panel, pair * 2u, block * BLOCK + 208u));
}

// The high pairs of a column: of four rows in the lowest bits of the bytes, of the other four above them.
fn pairs(panel: Panel, column: u32) -> u32 {
    let at = column / 256u * BLOCK + 128u + column % 256u / 128u * 32u + column % 32u;
    let shift = column % 128u / 32u * 2u;
    let first = (four_bytes(panel, 0u, at) >> shift) & 0x03030303u;
    return first | (((four_bytes(panel, 4u, at) >> shift) & 0x03030303u) << 2u);
}
