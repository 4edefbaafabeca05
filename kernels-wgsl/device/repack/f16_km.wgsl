// F16: for each column four words of two rows.
#import device/repack/k_major

const BLOCK: u32 = 2u;
const BLOCK_WEIGHTS: u32 = 1u;

fn k_major_word(panel: Panel, i: u32) -> Word {
    let column = i % params.cols;
    let pair = i / params.cols;
    return Word(entry(column, panel, 4u, pair), two_f16(panel, pair * 2u, column * 2u));
}
