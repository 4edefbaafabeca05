// Q4_K as it lies in the file: blocks of 256 weights in 144 bytes = 9 loads. Load 0: f16 d and dmin, then 12 bytes with
// eight pairs of six-bit scale and min. Loads 1 to 8: nibbles; a 32-byte run holds sub-block 2j low and 2j + 1 high.
#import weight/k_scales

fn weight_at(i: u32) -> f32 {
    let block = (i / 256u) * 9u;
    let sub = (i % 256u) / 32u;
    let scale_min = weight_scale_min(weight[block], sub);
    let load = weight[block + 1u + (sub / 2u) * 2u + (i % 32u) / 16u];
    let nibbles = unpack4xU8((load[(i % 16u) / 4u] >> ((sub % 2u) * 4u)) & 0x0f0f0f0fu);
    return scale_min.x * f32(nibbles[i % 4u]) - scale_min.y;
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = (group / 8u) * 9u;
    let sub = group % 8u;
    let scale_min = weight_scale_min(weight[block], sub);
    let shift = (sub % 2u) * 4u;
    let at = block + 1u + (sub / 2u) * 2u;
    var out: array<vec4<f32>, 8>;
    for (var half = 0u; half < 2u; half++) {
        let words = (weight[at + half] >> vec4(shift)) & vec4(0x0f0f0f0fu);
        for (var i = 0u; i < 4u; i++) {
            out[half * 4u + i] = scale_min.x * vec4<f32>(unpack4xU8(words[i])) - scale_min.y;
        }
    }
    return out;
}
