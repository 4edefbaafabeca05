// Q4_0: for each column a word of nibbles; for each block four words of scales.
#import repack/columns

const BLOCK: u32 = 18u;
const BLOCK_WEIGHTS: u32 = 32u;

fn column_word(eight: Eight, i: u32) -> Word {
    let codes = params.cols;
    if i < codes {
        let at = i / 32u * BLOCK + 2u + i % 16u;
        return Word(entry(i, eight, 1u, 0u), eight_nibbles(eight, at, i % 32u / 16u * 4u, 15u));
    }
    let block = (i - codes) / 4u;
    let pair = i % 4u;
    return Word(codes * params.eights + entry(block, eight, 4u, pair), two_halves(eight, pair * 2u, block * BLOCK));
}
