// Q8_0 as it is in the file: blocks of 34 bytes (f16 scale, 32 signed bytes). Every other block is off by half a word.
// requires: const K, fn half8_of_bytes, x_vec4
@group(0) @binding(0) var<storage, read> weight: array<u32>;    // [shard_rows, k] in Q8_0

const weight_is_present: bool = true;
const weight_format: u32 = 4u;
const weight_is_float: bool = false;
const weight_has_integers: bool = false;

// The 16 bits at an even byte address.
fn weight_half(at: u32) -> u32 {
    return (weight[at / 4u] >> ((at & 2u) * 8u)) & 0xffffu;
}

// The 32 bits at an even byte address.
fn weight_word(at: u32) -> u32 {
    let i = at / 4u;
    if (at & 2u) == 0u {
        return weight[i];
    }
    return (weight[i] >> 16u) | (weight[i + 1u] << 16u);
}

fn weight_value(i: u32) -> f32 {
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

// Packed: blocks lie across loads, so that 32 consecutive weights are read at once and none is in flight before.
const weight_values_per_load: u32 = 32u;
alias weight_values = array<vec4<f32>, 8>;
alias weight_x = array<vec4<f32>, 8>;

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    return vec4<u32>();
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    return weight_load32(row * (K / 32u) + load);
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    let at = first * 4u + load * 8u;
    return array<vec4<f32>, 8>(
        x_vec4(at), x_vec4(at + 1u), x_vec4(at + 2u), x_vec4(at + 3u),
        x_vec4(at + 4u), x_vec4(at + 5u), x_vec4(at + 6u), x_vec4(at + 7u),
    );
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]) + dot(w[2], x[2]) + dot(w[3], x[3])
        + dot(w[4], x[4]) + dot(w[5], x[5]) + dot(w[6], x[6]) + dot(w[7], x[7]);
}

// For the matrix units (lib/coop): a part is a block, read as the nine words that it lies across; then as packed f16, and where in
// the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 3u;
const weight_part_span: u32 = 32u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 3> {
    let at = (row * (K / 32u) + part) * 34u / 4u;
    return array(
        vec4(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]),
        vec4(weight[at + 4u], weight[at + 5u], weight[at + 6u], weight[at + 7u]),
        vec4(weight[at + 8u], 0u, 0u, row * (K / 32u) + part),
    );
}

fn weight_part_half8s(packed: array<vec4<u32>, 3>, part: u32) -> array<vec4<u32>, 4> {
    // Odd blocks begin in the upper half of a word: their quants are whole words.
    let is_odd = (packed[2].w & 1u) == 1u;
    let scale = f16(unpack2x16float(select(packed[0].x, packed[0].x >> 16u, is_odd)).x);
    let a = vec4(packed[0].yzw, packed[1].x);
    let b = vec4(packed[1].yzw, packed[2].x);
    let q = select((packed[0] >> vec4(16u)) | (a << vec4(16u)), a, is_odd) ^ vec4(0x80808080u);
    let r = select((packed[1] >> vec4(16u)) | (b << vec4(16u)), b, is_odd) ^ vec4(0x80808080u);
    return array(
        half8_of_bytes(q.x, q.y, 128.0h, scale, 0.0h),
        half8_of_bytes(q.z, q.w, 128.0h, scale, 0.0h),
        half8_of_bytes(r.x, r.y, 128.0h, scale, 0.0h),
        half8_of_bytes(r.z, r.w, 128.0h, scale, 0.0h),
    );
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row * 4u + half8;
}
