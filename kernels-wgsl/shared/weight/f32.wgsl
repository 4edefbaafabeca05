// 32-bit floats.
@group(0) @binding(0) var<storage, read> weight: array<f32>;

fn weight_at(i: u32) -> f32 {
    return weight[i];
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        let at = group * 32u + i * 4u;
        out[i] = vec4(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]);
    }
    return out;
}
