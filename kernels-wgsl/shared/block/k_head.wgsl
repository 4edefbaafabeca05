// What Q4_K and Q5_K share: half a block is four sub-blocks of 32 weights, whose scales and mins are read from load 0 of
// the block, four at once.
#import weight/k_scales

const weight_subs: u32 = 4u;

fn weight_half(words: HalfWords, half: u32) -> Half {
    let head = words[0];
    let is_late = half % 2u == 1u;
    let scales = select(
        head.y & 0x3f3f3f3fu,
        (head.w & 0x0f0f0f0fu) | ((head.y >> 2u) & 0x30303030u),
        is_late,
    );
    let mins = select(
        head.z & 0x3f3f3f3fu,
        ((head.w >> 4u) & 0x0f0f0f0fu) | ((head.z >> 2u) & 0x30303030u),
        is_late,
    );
    let both = unpack2x16float(head.x);
    return Half(vec2(scales, 0u), vec2(mins, 0u), both.x, both.y);
}

// Nibbles of run `run` of the half block whose loads of nibbles are these.
fn weight_nibbles(load: vec4<u32>, run: u32) -> vec4<u32> {
    return (load >> vec4(run / 2u % 2u * 4u)) & vec4(0x0f0f0f0fu);
}
