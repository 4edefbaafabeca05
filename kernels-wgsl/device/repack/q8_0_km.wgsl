// Q8_0: for each column two words of four rows; for each block four words of scales.
#import device/repack/k_major

const BLOCK: u32 = 34u;
const BLOCK_WEIGHTS: u32 = 32u;

fn k_major_word(panel: Panel, i: u32) -> Word {
    let quants = params.cols * 2u;
    if i < quants {
        let column = i % params.cols;
        let four = i / params.cols;
        let at = column / 32u * BLOCK + 2u + column % 32u;
        return Word(entry(column, panel, 2u, four), four_bytes(panel, four * 4u, at));
    }
    let block = (i - quants) / 4u;
    let pair = i % 4u;
    return Word(quants * params.panels + entry(block, panel, 4u, pair), two_f16(panel, pair * 2u, block * BLOCK));
}
