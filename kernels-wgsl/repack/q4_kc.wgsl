// Q4_K: for each column a word of nibbles; for each 32 columns three words of six-bit scales and minima; for each block
// four words of d and four of dmin.
#import repack/columns

const BLOCK: u32 = 144u;
const BLOCK_WEIGHTS: u32 = 256u;

fn column_word(eight: Eight, i: u32) -> Word {
    let codes = params.cols;
    if i < codes {
        let at = i / 256u * BLOCK + 16u + i % 256u / 64u * 32u + i % 32u;
        return Word(entry(i, eight, 1u, 0u), eight_nibbles(eight, at, i % 64u / 32u * 4u, 15u));
    }
    let sixes = params.cols / 32u * 3u;
    if i < codes + sixes {
        let place = (i - codes) / 3u;
        let part = (i - codes) % 3u;
        return Word(codes * params.eights + entry(place, eight, 3u, part), six_bits(eight, place, part));
    }
    let j = i - codes - sixes;
    let block = j / 8u;
    let pair = j % 4u;
    let at = block * BLOCK + j % 8u / 4u * 2u;
    return Word((codes + sixes) * params.eights + entry(block, eight, 8u, j % 8u), two_halves(eight, pair * 2u, at));
}

// Parts: low nibbles of the scales, low nibbles of the minima, high pairs of both.
fn six_bits(eight: Eight, place: u32, part: u32) -> u32 {
    let block = place / 8u * BLOCK;
    let sub = place % 8u;
    if part < 2u {
        if sub < 4u {
            return eight_nibbles(eight, block + 4u + part * 4u + sub, 0u, 15u);
        }
        return eight_nibbles(eight, block + 8u + sub, part * 4u, 15u);
    }
    let at = block + 4u + sub % 4u;
    let shift = select(4u, 6u, sub >= 4u);
    return eight_nibbles(eight, at, shift, 3u) | (eight_nibbles(eight, at + 4u, shift, 3u) << 2u);
}
