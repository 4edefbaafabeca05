// What Q4_K and Q5_K share: a block is eight pieces, piece i half i % 2 of sub-blocks i / 2 * 2 (low nibbles) and
// i / 2 * 2 + 1 (high nibbles).
#import piece/pair

fn weight_runs(piece: u32) -> vec2<u32> {
    let low = piece / 8u * 16u + piece % 8u / 2u * 4u + piece % 2u;
    return vec2(low, low + 2u);
}

// Scales of the two sub-blocks, then their mins, of piece i of the block that begins with `head`.
fn weight_scales_mins(head: vec4<u32>, i: u32) -> vec4<f32> {
    // Sub-blocks 2 j and 2 j + 1 have neighbouring bytes; from the fifth sub-block on, the upper two bits of a number
    // are in the bytes of the first four.
    let bytes = head.yzw >> vec3(i / 2u % 2u * 16u);
    let late = i >= 4u;
    let scales = select(bytes.x & 0x3f3fu, (bytes.z & 0x0f0fu) | ((bytes.x >> 2u) & 0x3030u), late);
    let mins = select(bytes.y & 0x3f3fu, ((bytes.z >> 4u) & 0x0f0fu) | ((bytes.y >> 2u) & 0x3030u), late);
    let sixes = vec4(scales & 0xffu, scales >> 8u, mins & 0xffu, mins >> 8u);
    return unpack2x16float(head.x).xxyy * vec4<f32>(sixes);
}
