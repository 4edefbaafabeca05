// Q6_K: for each column a word of low nibbles; for each two columns a word of high pairs; for each 16 columns two words of
// scales; for each block four words of d.
#import repack/columns

const BLOCK: u32 = 210u;
const BLOCK_WEIGHTS: u32 = 256u;

fn column_word(eight: Eight, i: u32) -> Word {
    let low = params.cols;
    if i < low {
        let part = i % 128u / 32u;
        let at = i / 256u * BLOCK + i % 256u / 128u * 64u + part % 2u * 32u + i % 32u;
        return Word(entry(i, eight, 1u, 0u), eight_nibbles(eight, at, part / 2u * 4u, 15u));
    }
    let high = low + params.cols / 2u;
    if i < high {
        let two = i - low;
        return Word(low * params.eights + entry(two, eight, 1u, 0u), pairs(eight, 2u * two) | (pairs(eight, 2u * two + 1u) << 4u));
    }
    let scales = high + params.cols / 8u;
    if i < scales {
        let run = (i - high) / 2u;
        let four = (i - high) % 2u;
        let at = run / 16u * BLOCK + 192u + run % 16u;
        return Word(high * params.eights + entry(run, eight, 2u, four), four_bytes(eight, four * 4u, at));
    }
    let block = (i - scales) / 4u;
    let pair = (i - scales) % 4u;
    return Word(scales * params.eights + entry(block, eight, 4u, pair), two_halves(eight, pair * 2u, block * BLOCK + 208u));
}

// The high pairs of a column: of four rows in the lowest bits of the bytes, of the other four above them.
fn pairs(eight: Eight, column: u32) -> u32 {
    let at = column / 256u * BLOCK + 128u + column % 256u / 128u * 32u + column % 32u;
    let shift = column % 128u / 32u * 2u;
    let first = (four_bytes(eight, 0u, at) >> shift) & 0x03030303u;
    return first | (((four_bytes(eight, 4u, at) >> shift) & 0x03030303u) << 2u);
}
