// Q4_0 in tiles of eight blocks = 9 loads. Loads 0 to 7: the nibbles of a block each, low ones for its first 16 weights,
// high ones for the others; load 8: the eight f16 scales.
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;

fn weight_scale(block: u32) -> f32 {
    let place = block % 8u;
    return unpack2x16float(weight[block / 8u * 9u + 8u][place / 2u])[place % 2u];
}

fn weight_at(i: u32) -> f32 {
    let block = i / 32u;
    let word = weight[block / 8u * 9u + block % 8u][i % 16u / 4u];
    let nibbles = unpack4xU8((word >> (i % 32u / 16u * 4u)) & 0x0f0f0f0fu);
    return weight_scale(block) * (f32(nibbles[i % 4u]) - 8.0);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let words = weight[group / 8u * 9u + group % 8u];
    let scale = weight_scale(group);
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 4u; i++) {
        out[i] = scale * (vec4<f32>(unpack4xU8(words[i] & 0x0f0f0f0fu)) - 8.0);
        out[i + 4u] = scale * (vec4<f32>(unpack4xU8((words[i] >> 4u) & 0x0f0f0f0fu)) - 8.0);
    }
    return out;
}
