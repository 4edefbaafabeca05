// Q4_0 as it is in the file: blocks of 18 bytes (f16 scale, 16 bytes of nibbles). Low nibbles are the first 16 weights, high
// nibbles the others. Every other block is off by half a word.
// requires: const K, fn half8_of_bytes, x_vec4
@group(0) @binding(0) var<storage, read> weight: array<u32>;    // [shard_rows, k] in Q4_0

const weight_is_present: bool = true;
const weight_format: u32 = 5u;
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
    let block = (i / 32u) * 18u;
    let word = weight_word(block + 2u + (i % 16u) / 4u * 4u);
    let nibbles = unpack4xU8((word >> ((i % 32u) / 16u * 4u)) & 0x0f0f0f0fu);
    return unpack2x16float(weight_half(block)).x * (f32(nibbles[i % 4u]) - 8.0);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = group * 18u;
    let scale = unpack2x16float(weight_half(block)).x;
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 4u; i++) {
        let word = weight_word(block + 2u + i * 4u);
        out[i] = scale * (vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - 8.0);
        out[i + 4u] = scale * (vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)) - 8.0);
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

// For the matrix units (lib/coop): a part is a block, read as the five words that it lies across; then as packed f16, and where in
// the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 2u;
const weight_part_span: u32 = 32u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 2> {
    let block = row * (K / 32u) + part;
    let at = block * 18u / 4u;
    return array(
        vec4(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]),
        vec4(weight[at + 4u], 0u, 0u, block),
    );
}

fn weight_part_half8s(packed: array<vec4<u32>, 2>, part: u32) -> array<vec4<u32>, 4> {
    // Odd blocks begin in the upper half of a word: their nibbles are whole words.
    let is_odd = (packed[1].w & 1u) == 1u;
    let scale = f16(unpack2x16float(select(packed[0].x, packed[0].x >> 16u, is_odd)).x);
    let words = vec4(packed[0].yzw, packed[1].x);
    let q = select((packed[0] >> vec4(16u)) | (words << vec4(16u)), words, is_odd);
    let low = q & vec4(0x0f0f0f0fu);
    let high = (q >> vec4(4u)) & vec4(0x0f0f0f0fu);
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
