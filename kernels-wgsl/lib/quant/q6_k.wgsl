// Q6_K as it is in the file: super-blocks of 256 weights in 210 bytes: 128 of low nibbles, 64 of high bit pairs, 16 signed
// scales (one per 16 weights), f16 d. Every other block is off by half a word. Weights 32 * part .. of a half (128 weights)
// take nibbles from bytes 32 * (part % 2) .. of the half's 64, low for parts 0 and 1, and bit pair `part` of the half's 32
// high bytes.
// requires: const K, fn half8_of_bytes, x_vec4
@group(0) @binding(0) var<storage, read> weight: array<u32>;    // [shard_rows, k] in Q6_K

const weight_is_present: bool = true;
const weight_format: u32 = 8u;
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

// The scale of weight `i` of the block.
fn weight_scale(block: u32, i: u32) -> f32 {
    let pair = weight_half(block + 192u + i / 32u * 2u);
    let scale = extractBits(bitcast<i32>(pair), ((i / 16u) % 2u) * 8u, 8u);
    return unpack2x16float(weight_half(block + 208u)).x * f32(scale);
}

// Four weights of the block from `i` on, less 32, unscaled.
fn weight_quants(block: u32, i: u32) -> vec4<f32> {
    let half_block = i / 128u;
    let part = (i % 128u) / 32u;
    let low = weight_word(block + half_block * 64u + (part % 2u) * 32u + i % 32u);
    let high = weight_word(block + 128u + half_block * 32u + i % 32u);
    let bits = ((low >> ((part / 2u) * 4u)) & 0x0f0f0f0fu) | (((high >> (part * 2u)) & 0x03030303u) << 4u);
    return vec4<f32>(unpack4xU8(bits)) - 32.0;
}

fn weight_value(i: u32) -> f32 {
    let block = (i / 256u) * 210u;
    let at = i % 256u;
    return weight_scale(block, at) * weight_quants(block, at - at % 4u)[at % 4u];
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = (group / 8u) * 210u;
    let at = (group % 8u) * 32u;
    let scales = vec2(weight_scale(block, at), weight_scale(block, at + 16u));
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        out[i] = scales[i / 4u] * weight_quants(block, at + i * 4u);
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

// For the matrix units (lib/coop): a part is 32 weights, whose low and high bits are 32 bytes each that lie across nine words; then
// as packed f16, and where in the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 5u;
const weight_part_span: u32 = 32u;

// The 16 bytes from an even address on.
fn weight_words4(at: u32) -> vec4<u32> {
    let i = at / 4u;
    let words = vec4(weight[i], weight[i + 1u], weight[i + 2u], weight[i + 3u]);
    let last = weight[i + 4u];
    let across = (words >> vec4(16u)) | (vec4(words.yzw, last) << vec4(16u));
    return select(words, across, (at & 2u) == 2u);
}

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 5> {
    let block = (row * (K / 256u) + part / 8u) * 210u;
    let low = block + part % 8u / 4u * 64u + part % 2u * 32u;
    let high = block + 128u + part % 8u / 4u * 32u;
    let scales = vec4(weight_half(block + 192u + part % 8u * 2u), weight_half(block + 208u), 0u, 0u);
    return array(weight_words4(low), weight_words4(low + 16u), weight_words4(high), weight_words4(high + 16u), scales);
}

fn weight_part_half8s(packed: array<vec4<u32>, 5>, part: u32) -> array<vec4<u32>, 4> {
    let pair = bitcast<i32>(packed[4].x);
    let d = unpack2x16float(packed[4].y).x;
    let first = f16(d * f32(extractBits(pair, 0u, 8u)));
    let second = f16(d * f32(extractBits(pair, 8u, 8u)));
    let nibble = vec4(part % 4u / 2u * 4u);
    let bits = vec4(part % 4u * 2u);
    let a = ((packed[0] >> nibble) & vec4(0x0f0f0f0fu)) | (((packed[2] >> bits) & vec4(0x03030303u)) << vec4(4u));
    let b = ((packed[1] >> nibble) & vec4(0x0f0f0f0fu)) | (((packed[3] >> bits) & vec4(0x03030303u)) << vec4(4u));
    return array(
        half8_of_bytes(a.x, a.y, 32.0h, first, 0.0h),
        half8_of_bytes(a.z, a.w, 32.0h, first, 0.0h),
        half8_of_bytes(b.x, b.y, 32.0h, second, 0.0h),
        half8_of_bytes(b.z, b.w, 32.0h, second, 0.0h),
    );
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row * 4u + half8;
}
