// Q8_0 interleaved by eight: eight blocks are 17 loads. Loads 0 to 15: two of signed bytes for each block; load 16: the eight
// f16 scales.
// requires: const K, type W16, X16, fn dot16, half8_of_bytes, load_x16, w16_of
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [shard_rows, k] in Q8_0_X8

const weight_is_present: bool = true;
const weight_format: u32 = 9u;
const weight_is_float: bool = false;
const weight_has_integers: bool = true;

fn weight_scale(block: u32) -> f32 {
    let place = block % 8u;
    return unpack2x16float(weight[block / 8u * 17u + 16u][place / 2u])[place % 2u];
}

fn weight_value(i: u32) -> f32 {
    let block = i / 32u;
    let load = weight[block / 8u * 17u + block % 8u * 2u + i % 32u / 16u];
    return weight_scale(block) * f32(unpack4xI8(load[i % 16u / 4u])[i % 4u]);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let at = group / 8u * 17u + group % 8u * 2u;
    let scale = weight_scale(group);
    var out: array<vec4<f32>, 8>;
    for (var part16 = 0u; part16 < 2u; part16++) {
        let words = weight[at + part16];
        for (var i = 0u; i < 4u; i++) {
            out[part16 * 4u + i] = scale * vec4<f32>(unpack4xI8(words[i]));
        }
    }
    return out;
}

// Packed: a load holds half a block, one sub-block of 16.
const weight_values_per_load: u32 = 16u;
alias weight_values = W16;
alias weight_x = X16;

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    let sub_block = row * (K / 16u) + load;
    return weight[sub_block / 16u * 17u + sub_block % 16u];
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    return w16_of(packed, weight_scale((row * (K / 16u) + load) / 2u), 0.0, 8u);
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    return load_x16(first + load);
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return dot16(w, x);
}

// For the matrix units (lib/coop): a part is a block; then as packed f16, and where in the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 3u;
const weight_part_span: u32 = 32u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 3> {
    let block = row * (K / 32u) + part;
    let at = block / 8u * 17u + block % 8u * 2u;
    let scales = weight[block / 8u * 17u + 16u][block % 8u / 2u];
    return array(weight[at], weight[at + 1u], vec4(scales >> (block % 2u * 16u), 0u, 0u, 0u));
}

fn weight_part_half8s(packed: array<vec4<u32>, 3>, part: u32) -> array<vec4<u32>, 4> {
    let scale = f16(unpack2x16float(packed[2].x).x);
    let a = packed[0] ^ vec4(0x80808080u);
    let b = packed[1] ^ vec4(0x80808080u);
    return array(
        half8_of_bytes(a.x, a.y, 128.0h, scale, 0.0h),
        half8_of_bytes(a.z, a.w, 128.0h, scale, 0.0h),
        half8_of_bytes(b.x, b.y, 128.0h, scale, 0.0h),
        half8_of_bytes(b.z, b.w, 128.0h, scale, 0.0h),
    );
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row * 4u + half8;
}
