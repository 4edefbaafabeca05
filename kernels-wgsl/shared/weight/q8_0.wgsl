// Q8_0 as it lies in the file: blocks of 34 bytes (f16 scale, 32 signed bytes), so every other block is off by half a
// word.
#import weight/bytes

fn weight_at(i: u32) -> f32 {
    let block = (i / 32u) * 34u;
    let quants = unpack4xI8(weight_word(block + 2u + (i % 32u) / 4u * 4u));
    return unpack2x16float(weight_half(block)).x * f32(quants[i % 4u]);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = group * 34u;
    let scale = unpack2x16float(weight_half(block)).x;
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        out[i] = scale * vec4<f32>(unpack4xI8(weight_word(block + 2u + i * 4u)));
    }
    return out;
}
