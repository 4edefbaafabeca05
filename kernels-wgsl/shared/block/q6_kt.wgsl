// Half a block of Q6_K in tiles: four loads of low nibbles, two of high pairs, then the scales of its eight sub-blocks of 16
// weights, the word with its d and how far up in it that is.
#import weight/q6_kt

const weight_subs: u32 = 8u;
const weight_loads: u32 = 7u;

fn weight_raw(row: u32, half: u32) -> HalfWords {
    let block = row * (K / 256u) + half / 2u;
    let tile = block / 8u * 105u;
    let place = block % 8u;
    let own = half % 2u;
    let low = tile + place * 8u + own * 4u;
    let high = tile + 64u + place * 4u + own * 2u;
    let scales = tile + 96u + place;
    return HalfWords(
        weight[low], weight[low + 1u], weight[low + 2u], weight[low + 3u],
        weight[high], weight[high + 1u],
        vec4(
            weight[scales][own * 2u],
            weight[scales][own * 2u + 1u],
            weight[tile + 104u][place / 2u],
            place % 2u * 16u,
        ),
    );
}

fn weight_half(words: HalfWords, half: u32) -> Half {
    let scales = words[6].xy;
    let d = unpack2x16float(words[6].z >> words[6].w).x;
    return Half(scales, scales, d, 32.0 * d);
}

// The codes of sixteen weights.
fn weight_run_codes(words: HalfWords, half: u32, run: u32) -> vec4<u32> {
    let low = (words[run % 4u] >> vec4(run / 4u * 4u)) & vec4(0x0f0f0f0fu);
    // Bits 2 part and 2 part + 1 of every byte to 4 and 5: up, or for the last part down.
    let part = run / 2u;
    let pairs = (words[4u + run % 2u] << vec4(4u - min(2u * part, 4u))) >> vec4(max(2u * part, 4u) - 4u);
    return low | (pairs & vec4(0x30303030u));
}
