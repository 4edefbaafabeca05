// Q6_K in tiles of eight blocks = 105 loads. Loads 0 to 63: eight of low nibbles for each block; loads 64 to 95: four of
// high bit pairs each; loads 96 to 103: the 16 signed scales of a block each; load 104: the eight f16 d. Which weight
// has which bits of its block: as in q6_k.
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;

// The scale of weights 16 * run .. of the block.
fn weight_scale(block: u32, run: u32) -> f32 {
    let tile = block / 8u * 105u;
    let place = block % 8u;
    let scale = unpack4xI8(weight[tile + 96u + place][run / 4u])[run % 4u];
    return unpack2x16float(weight[tile + 104u][place / 2u])[place % 2u] * f32(scale);
}

// The six-bit codes of weights 16 * run .. of the block, as four words of bytes.
fn weight_codes(block: u32, run: u32) -> vec4<u32> {
    let tile = block / 8u * 105u;
    let place = block % 8u;
    let half = run / 8u;
    let part = run % 8u / 2u;
    let low = weight[tile + place * 8u + half * 4u + part % 2u * 2u + run % 2u] >> vec4(part / 2u * 4u);
    let high = weight[tile + 64u + place * 4u + half * 2u + run % 2u] >> vec4(part * 2u);
    return (low & vec4(0x0f0f0f0fu)) | ((high & vec4(0x03030303u)) << vec4(4u));
}

fn weight_at(i: u32) -> f32 {
    let block = i / 256u;
    let run = i % 256u / 16u;
    let codes = unpack4xU8(weight_codes(block, run)[i % 16u / 4u]);
    return weight_scale(block, run) * (f32(codes[i % 4u]) - 32.0);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var half = 0u; half < 2u; half++) {
        let run = group % 8u * 2u + half;
        let scale = weight_scale(group / 8u, run);
        let codes = weight_codes(group / 8u, run);
        for (var i = 0u; i < 4u; i++) {
            out[half * 4u + i] = scale * (vec4<f32>(unpack4xU8(codes[i])) - 32.0);
        }
    }
    return out;
}
