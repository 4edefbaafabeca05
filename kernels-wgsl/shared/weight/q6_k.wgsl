// Q6_K as it lies in the file: blocks of 256 weights in 210 bytes: 128 of low nibbles, 64 of high bit pairs, 16 signed
// scales (one per 16 weights), f16 d. Every other block is off by half a word. Weights 32 * part .. of a half (128
// weights) take nibbles from bytes 32 * (part % 2) .. of the half's 64, low for parts 0 and 1, and bit pair `part` of
// the half's 32 high bytes.
#import weight/bytes

// The scale of weight `i` of the block.
fn weight_scale(block: u32, i: u32) -> f32 {
    let pair = weight_half(block + 192u + i / 32u * 2u);
    let scale = extractBits(bitcast<i32>(pair), ((i / 16u) % 2u) * 8u, 8u);
    return unpack2x16float(weight_half(block + 208u)).x * f32(scale);
}

// Four weights of the block from `i` on, less 32, unscaled.
fn weight_quants(block: u32, i: u32) -> vec4<f32> {
    let half = i / 128u;
    let part = (i % 128u) / 32u;
    let low = weight_word(block + half * 64u + (part % 2u) * 32u + i % 32u);
    let high = weight_word(block + 128u + half * 32u + i % 32u);
    let bits = ((low >> ((part / 2u) * 4u)) & 0x0f0f0f0fu) | (((high >> (part * 2u)) & 0x03030303u) << 4u);
    return vec4<f32>(unpack4xU8(bits)) - 32.0;
}

fn weight_at(i: u32) -> f32 {
    let block = (i / 256u) * 210u;
    let at = i % 256u;
    return weight_scale(block, at) * weight_quants(block, at - at % 4u)[at % 4u];
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = (group / 8u) * 210u;
    let at = (group % 8u) * 32u;
    let scales = vec2(weight_scale(block, at), weight_scale(block, at + 16u));
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        out[i] = scales[i / 4u] * weight_quants(block, at + i * 4u);
    }
    return out;
}
