// Q8_0: for each column two words of four rows; for each block four words of scales.
#import repack/columns

const BLOCK: u32 = 34u;
const BLOCK_WEIGHTS: u32 = 32u;

fn column_word(eight: Eight, i: u32) -> Word {
    let codes = params.cols * 2u;
    if i < codes {
        let column = i % params.cols;
        let four = i / params.cols;
        let at = column / 32u * BLOCK + 2u + column % 32u;
        return Word(entry(column, eight, 2u, four), four_bytes(eight, four * 4u, at));
    }
    let block = (i - codes) / 4u;
    let pair = i % 4u;
    return Word(codes * params.eights + entry(block, eight, 4u, pair), two_halves(eight, pair * 2u, block * BLOCK));
}
