// Q8_0 in tiles of eight blocks = 17 loads. Loads 0 to 15: two of signed bytes for each block; load 16: the eight f16
// scales.
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;

fn weight_scale(block: u32) -> f32 {
    let place = block % 8u;
    return unpack2x16float(weight[block / 8u * 17u + 16u][place / 2u])[place % 2u];
}

fn weight_at(i: u32) -> f32 {
    let block = i / 32u;
    let load = weight[block / 8u * 17u + block % 8u * 2u + i % 32u / 16u];
    return weight_scale(block) * f32(unpack4xI8(load[i % 16u / 4u])[i % 4u]);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let at = group / 8u * 17u + group % 8u * 2u;
    let scale = weight_scale(group);
    var out: array<vec4<f32>, 8>;
    for (var half = 0u; half < 2u; half++) {
        let words = weight[at + half];
        for (var i = 0u; i < 4u; i++) {
            out[half * 4u + i] = scale * vec4<f32>(unpack4xI8(words[i]));
        }
    }
    return out;
}
