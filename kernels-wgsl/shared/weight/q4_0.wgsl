// Q4_0 as it lies in the file: blocks of 18 bytes (f16 scale, 16 bytes of nibbles). Low nibbles are the first 16
// weights, high nibbles the others; every other block is off by half a word.
#import weight/bytes

fn weight_at(i: u32) -> f32 {
    let block = (i / 32u) * 18u;
    let word = weight_word(block + 2u + (i % 16u) / 4u * 4u);
    let nibbles = unpack4xU8((word >> ((i % 32u) / 16u * 4u)) & 0x0f0f0f0fu);
    return unpack2x16float(weight_half(block)).x * (f32(nibbles[i % 4u]) - 8.0);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = group * 18u;
    let scale = unpack2x16float(weight_half(block)).x;
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 4u; i++) {
        let word = weight_word(block + 2u + i * 4u);
        out[i] = scale * (vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - 8.0);
        out[i + 4u] = scale * (vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)) - 8.0);
    }
    return out;
}
