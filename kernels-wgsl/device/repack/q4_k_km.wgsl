// Q4_K: for each column a word of nibbles; for each 32 columns three words of six-bit scales and mins; for each block four words
// of d and four of dmin.
#import device/repack/k_major

const BLOCK: u32 = 144u;
const BLOCK_WEIGHTS: u32 = 256u;

fn k_major_word(panel: Panel, i: u32) -> Word {
    let quants = params.cols;
    if i < quants {
        let at = i / 256u * BLOCK + 16u + i % 256u / 64u * 32u + i % 32u;
        return Word(entry(i, panel, 1u, 0u), panel_nibbles(panel, at, i % 64u / 32u * 4u, 15u));
    }
    let sixes = params.cols / 32u * 3u;
    if i < quants + sixes {
        let place = (i - quants) / 3u;
        let part = (i - quants) % 3u;
        return Word(quants * params.panels + entry(place, panel, 3u, part), six_bits(panel, place, part));
    }
    let j = i - quants - sixes;
    let block = j / 8u;
    let pair = j % 4u;
    let at = block * BLOCK + j % 8u / 4u * 2u;
    return Word((quants + sixes) * params.panels + entry(block, panel, 8u, j % 8u), two_f16(panel, pair * 2u, at));
}

// Parts: low nibbles of the scales, low nibbles of the mins, high pairs of both.
fn six_bits(panel: Panel, place: u32, part: u32) -> u32 {
    let block = place / 8u * BLOCK;
    let sub = place % 8u;
    if part < 2u {
        if sub < 4u {
            return panel_nibbles(panel, block + 4u + part * 4u + sub, 0u, 15u);
        }
        return panel_nibbles(panel, block + 8u + sub, part * 4u, 15u);
    }
    let at = block + 4u + sub % 4u;
    let shift = select(4u, 6u, sub >= 4u);
    return panel_nibbles(panel, at, shift, 3u) | (panel_nibbles(panel, at + 4u, shift, 3u) << 2u);
}
