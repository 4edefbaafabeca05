// The upper halves of 32-bit floats, two in a word, eight in a load.
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;

fn weight_pair(word: u32) -> vec2<f32> {
    return vec2(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

fn weight_at(i: u32) -> f32 {
    let pair = weight_pair(weight[i / 8u][(i / 2u) % 4u]);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 4u; i++) {
        let q = weight[group * 4u + i];
        out[i * 2u] = vec4(weight_pair(q.x), weight_pair(q.y));
        out[i * 2u + 1u] = vec4(weight_pair(q.z), weight_pair(q.w));
    }
    return out;
}
