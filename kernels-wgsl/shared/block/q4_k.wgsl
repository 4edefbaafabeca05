// Half a block of Q4_K: load 0 of the block, then four of nibbles.
#import block/k_head

const weight_loads: u32 = 5u;

fn weight_raw(row: u32, half: u32) -> HalfWords {
    let block = (row * (K / 256u) + half / 2u) * 9u;
    let at = block + 1u + half % 2u * 4u;
    return HalfWords(weight[block], weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]);
}

// The codes of sixteen weights.
fn weight_run_codes(words: HalfWords, half: u32, run: u32) -> vec4<u32> {
    return weight_nibbles(words[1u + run / 4u * 2u + run % 2u], run);
}
