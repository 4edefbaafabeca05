// Q4_0: for each column a word of nibbles; for each block four words of scales.
#import device/repack/k_major

const BLOCK: u32 = 18u;
const BLOCK_WEIGHTS: u32 = 32u;

fn k_major_word(panel: Panel, i: u32) -> Word {
    let quants = params.cols;
    if i < quants {
        let at = i / 32u * BLOCK + 2u + i % 16u;
        return Word(entry(i, panel, 1u, 0u), panel_nibbles(panel, at, i % 32u / 16u * 4u, 15u));
    }
    let block = (i - quants) / 4u;
    let pair = i % 4u;
    return Word(quants * params.panels + entry(block, panel, 4u, pair), two_f16(panel, pair * 2u, block * BLOCK));
}
