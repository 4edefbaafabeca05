// F16: for each column four words of two rows.
#import repack/columns

const BLOCK: u32 = 2u;
const BLOCK_WEIGHTS: u32 = 1u;

fn column_word(eight: Eight, i: u32) -> Word {
    let column = i % params.cols;
    let pair = i / params.cols;
    return Word(entry(column, eight, 4u, pair), two_halves(eight, pair * 2u, column * 2u));
}
