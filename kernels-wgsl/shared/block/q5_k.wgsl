// Half a block of Q5_K: load 0 of the block, both of fifth bits, then four of nibbles.
#import block/k_head

const weight_loads: u32 = 7u;

fn weight_raw(row: u32, half: u32) -> HalfWords {
    let block = (row * (K / 256u) + half / 2u) * 11u;
    let at = block + 3u + half % 2u * 4u;
    return HalfWords(
        weight[block], weight[block + 1u], weight[block + 2u],
        weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u],
    );
}

// The codes of sixteen weights.
fn weight_run_codes(words: HalfWords, half: u32, run: u32) -> vec4<u32> {
    let fifths = (words[1u + run % 2u] >> vec4(half % 2u * 4u)) << vec4(4u - run / 2u);
    return weight_nibbles(words[3u + run / 4u * 2u + run % 2u], run) | (fifths & vec4(0x10101010u));
}
