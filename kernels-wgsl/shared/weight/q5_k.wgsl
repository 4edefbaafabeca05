// Q5_K as it lies in the file: blocks of 256 weights in 176 bytes = 11 loads. Load 0 as in Q4_K; loads 1 and 2: the
// fifth bits, bit `sub` of byte i for weight i of sub-block `sub`; loads 3 to 10: nibbles as in Q4_K.
#import weight/k_scales

// Sixteen weights of sub-block `sub` from position 16 * half on, as four words of bytes.
fn weight_words(block: u32, sub: u32, half: u32) -> vec4<u32> {
    let low = (weight[block + 3u + (sub / 2u) * 2u + half] >> vec4((sub % 2u) * 4u)) & vec4(0x0f0f0f0fu);
    let high = (weight[block + 1u + half] >> vec4(sub)) & vec4(0x01010101u);
    return low | (high << vec4(4u));
}

fn weight_at(i: u32) -> f32 {
    let block = (i / 256u) * 11u;
    let sub = (i % 256u) / 32u;
    let scale_min = weight_scale_min(weight[block], sub);
    let words = weight_words(block, sub, (i % 32u) / 16u);
    return scale_min.x * f32(unpack4xU8(words[(i % 16u) / 4u])[i % 4u]) - scale_min.y;
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = (group / 8u) * 11u;
    let sub = group % 8u;
    let scale_min = weight_scale_min(weight[block], sub);
    var out: array<vec4<f32>, 8>;
    for (var half = 0u; half < 2u; half++) {
        let words = weight_words(block, sub, half);
        for (var i = 0u; i < 4u; i++) {
            out[half * 4u + i] = scale_min.x * vec4<f32>(unpack4xU8(words[i])) - scale_min.y;
        }
    }
    return out;
}
