// Q4_0 interleaved by eight: eight blocks are 9 loads. Loads 0 to 7: the nibbles of a block each, low ones for its first 16
// weights, high ones for the others; load 8: the eight f16 scales.
// requires: const K, type W16, X16, fn dot16, half8_of_bytes, load_x16, w16_of
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [shard_rows, k] in Q4_0_X8

const weight_is_present: bool = true;
const weight_format: u32 = 10u;
const weight_is_float: bool = false;
const weight_has_integers: bool = true;

fn weight_scale(block: u32) -> f32 {
    let place = block % 8u;
    return unpack2x16float(weight[block / 8u * 9u + 8u][place / 2u])[place % 2u];
}

fn weight_value(i: u32) -> f32 {
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

// Packed: a load holds one block, its low and its high nibbles.
const weight_values_per_load: u32 = 32u;

struct weight_values {
    low: W16,
    high: W16,
}

struct weight_x {
    low: X16,
    high: X16,
}

// The sub-blocks of 16 in a row that the low and the high bits of a load are.
fn weight_sub_blocks(load: u32) -> vec2<u32> {
    return vec2(load * 2u, load * 2u + 1u);
}

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    let block = row * (K / 32u) + load;
    return weight[block / 8u * 9u + block % 8u];
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    let scale = weight_scale(row * (K / 32u) + load);
    return weight_values(
        w16_of(packed, scale, 8.0 * scale, 4u),
        w16_of(packed >> vec4(4u), scale, 8.0 * scale, 4u),
    );
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    let at = weight_sub_blocks(load) + vec2(first);
    return weight_x(load_x16(at.x), load_x16(at.y));
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return dot16(w.low, x.low) + dot16(w.high, x.high);
}

// For the matrix units (lib/coop): a part is a block; then as packed f16, and where in the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 2u;
const weight_part_span: u32 = 32u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 2> {
    let block = row * (K / 32u) + part;
    let scales = weight[block / 8u * 9u + 8u][block % 8u / 2u];
    return array(weight[block / 8u * 9u + block % 8u], vec4(scales >> (block % 2u * 16u), 0u, 0u, 0u));
}

fn weight_part_half8s(packed: array<vec4<u32>, 2>, part: u32) -> array<vec4<u32>, 4> {
    let scale = f16(unpack2x16float(packed[1].x).x);
    let low = packed[0] & vec4(0x0f0f0f0fu);
    let high = (packed[0] >> vec4(4u)) & vec4(0x0f0f0f0fu);
    return array(
        half8_of_bytes(low.x, low.y, 8.0h, scale, 0.0h),
        half8_of_bytes(low.z, low.w, 8.0h, scale, 0.0h),
        half8_of_bytes(high.x, high.y, 8.0h, scale, 0.0h),
        half8_of_bytes(high.z, high.w, 8.0h, scale, 0.0h),
    );
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row * 4u + half8;
}
