// Q5_K as it is in the file: super-blocks of 256 weights in 176 bytes = 11 loads. Load 0: f16 d and dmin, then 12 bytes with
// eight pairs of six-bit scale and min. Loads 1 and 2: the fifth bits, bit `sub` of byte i for weight i of sub-block `sub`.
// Loads 3 to 10: nibbles; 32 bytes hold sub-block 2j low and 2j + 1 high.
// requires: const HALF_BLOCKS, K, ROWS, type HalfBlock, HalfBlockWords, W16, X16, fn dot16, half8_of_bytes, load_x16
// requires: fn w16_of
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [shard_rows, k] in Q5_K

const weight_is_present: bool = true;
const weight_format: u32 = 7u;
const weight_is_float: bool = false;
const weight_has_integers: bool = true;

// Scale and min of sub-block `sub`, times d and dmin, from load 0 of the block.
fn weight_scale_min(head: vec4<u32>, sub: u32) -> vec2<f32> {
    let super_scales = unpack2x16float(head.x);
    let byte = (sub % 4u) * 8u;
    let low = (head.y >> byte) & 0xffu;
    let middle = (head.z >> byte) & 0xffu;
    let high = (head.w >> byte) & 0xffu;
    if sub < 4u {
        return super_scales * vec2(f32(low & 63u), f32(middle & 63u));
    }
    return super_scales * vec2(f32((high & 15u) | ((low >> 6u) << 4u)), f32((high >> 4u) | ((middle >> 6u) << 4u)));
}

// Sixteen weights of sub-block `sub` from position 16 * part16 on, as four words of bytes.
fn weight_words(block: u32, sub: u32, part16: u32) -> vec4<u32> {
    let low = (weight[block + 3u + (sub / 2u) * 2u + part16] >> vec4((sub % 2u) * 4u)) & vec4(0x0f0f0f0fu);
    let high = (weight[block + 1u + part16] >> vec4(sub)) & vec4(0x01010101u);
    return low | (high << vec4(4u));
}

fn weight_value(i: u32) -> f32 {
    let block = (i / 256u) * 11u;
    let sub = (i % 256u) / 32u;
    let scale_min = weight_scale_min(weight[block], sub);
    let words = weight_words(block, sub, (i % 32u) / 16u);
    return scale_min.x * f32(unpack4xU8(words[(i % 16u) / 4u])[i % 4u]) - scale_min.y;
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let block = (group / 8u) * 11u;
    let sub = group % 8u;
    let scale_min = weight_scale_min(weight[block], sub);
    var out: array<vec4<f32>, 8>;
    for (var part16 = 0u; part16 < 2u; part16++) {
        let words = weight_words(block, sub, part16);
        for (var i = 0u; i < 4u; i++) {
            out[part16 * 4u + i] = scale_min.x * vec4<f32>(unpack4xU8(words[i])) - scale_min.y;
        }
    }
    return out;
}

// Scales of the two sub-blocks, then their mins, of load i of the block that begins with `head`.
fn weight_scales_mins(head: vec4<u32>, i: u32) -> vec4<f32> {
    // Sub-blocks 2 j and 2 j + 1 have adjacent bytes; from the fifth sub-block on, the upper two bits of a number are in the
    // bytes of the first four.
    let bytes = head.yzw >> vec3(i / 2u % 2u * 16u);
    let late = i >= 4u;
    let scales = select(bytes.x & 0x3f3fu, (bytes.z & 0x0f0fu) | ((bytes.x >> 2u) & 0x3030u), late);
    let mins = select(bytes.y & 0x3f3fu, ((bytes.z >> 4u) & 0x0f0fu) | ((bytes.y >> 2u) & 0x3030u), late);
    let sixes = vec4(scales & 0xffu, scales >> 8u, mins & 0xffu, mins >> 8u);
    return unpack2x16float(head.x).xxyy * vec4<f32>(sixes);
}

// Packed: load i of nibbles is half i % 2 of sub-blocks i / 2 * 2 (low) and i / 2 * 2 + 1 (high).
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
    let low = load / 8u * 16u + load % 8u / 2u * 4u + load % 2u;
    return vec2(low, low + 2u);
}

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    return weight[(row * (K / 256u) + load / 8u) * 11u + 3u + load % 8u];
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    let block = (row * (K / 256u) + load / 8u) * 11u;
    let i = load % 8u;
    let fifths = weight[block + 1u + i % 2u] >> vec4(i / 2u * 2u);
    let s = weight_scales_mins(weight[block], i);
    let low = (packed & vec4(0x0f0f0f0fu)) | ((fifths << vec4(4u)) & vec4(0x10101010u));
    let high = ((packed >> vec4(4u)) & vec4(0x0f0f0f0fu)) | ((fifths << vec4(3u)) & vec4(0x10101010u));
    return weight_values(w16_of(low, s.x, s.z, 5u), w16_of(high, s.y, s.w, 5u));
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

// Half a super-block for integer products: load 0 of the block, both of fifth bits, then four of nibbles. It is four sub-blocks
// of 32 weights, whose scales and mins are unpacked at once.
const weight_k_sub_blocks: u32 = 4u;
const weight_k_loads: u32 = 7u;

fn weight_load_half_block(row: u32, half_block: u32) -> HalfBlockWords {
    let block = (row * (K / 256u) + half_block / 2u) * 11u;
    let at = block + 3u + half_block % 2u * 4u;
    return HalfBlockWords(
        weight[block], weight[block + 1u], weight[block + 2u],
        weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u],
    );
}

fn weight_half_block(words: HalfBlockWords, half_block: u32) -> HalfBlock {
    let head = words[0];
    let is_late = half_block % 2u == 1u;
    let scales = select(
        head.y & 0x3f3f3f3fu,
        (head.w & 0x0f0f0f0fu) | ((head.y >> 2u) & 0x30303030u),
        is_late,
    );
    let mins = select(
        head.z & 0x3f3f3f3fu,
        ((head.w >> 4u) & 0x0f0f0f0fu) | ((head.z >> 2u) & 0x30303030u),
        is_late,
    );
    let both = unpack2x16float(head.x);
    return HalfBlock(vec2(scales, 0u), vec2(mins, 0u), both.x, both.y);
}

// The nibbles of group `group` of 16 of the half super-block whose load of nibbles this is.
fn weight_nibbles(load: vec4<u32>, group: u32) -> vec4<u32> {
    return (load >> vec4(group / 2u % 2u * 4u)) & vec4(0x0f0f0f0fu);
}

// The quants of sixteen weights.
fn weight_quants16(words: HalfBlockWords, half_block: u32, group: u32) -> vec4<u32> {
    let fifths = (words[1u + group % 2u] >> vec4(half_block % 2u * 4u)) << vec4(4u - group / 2u);
    return weight_nibbles(words[3u + group / 4u * 2u + group % 2u], group) | (fifths & vec4(0x10101010u));
}

// Half super-blocks of ROWS rows, clamped; sums past the end are dropped.
fn weight_load_half_blocks(row: u32, end: u32, half_block: u32) -> array<HalfBlockWords, ROWS> {
    var words: array<HalfBlockWords, ROWS>;
    if row < end && half_block < HALF_BLOCKS {
        for (var i = 0u; i < ROWS; i++) {       // unroll
            words[i] = weight_load_half_block(min(row + i, end - 1u), half_block);
        }
    }
    return words;
}

// For the matrix units (lib/coop): a part is a load of nibbles, their fifth bits and load 0 of the block, 16 weights each of two
// adjacent sub-blocks; then as packed f16, and where in the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 3u;
const weight_part_span: u32 = 64u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 3> {
    let block = (row * (K / 256u) + part / 8u) * 11u;
    return array(weight[block], weight[block + 1u + part % 2u], weight[block + 3u + part % 8u]);
}

fn weight_part_half8s(packed: array<vec4<u32>, 3>, part: u32) -> array<vec4<u32>, 4> {
    let s = vec4<f16>(weight_scales_mins(packed[0], part % 8u) * vec4(1.0, 1.0, -1.0, -1.0));
    let fifths = packed[1] >> vec4(part % 8u / 2u * 2u);
    let low = (packed[2] & vec4(0x0f0f0f0fu)) | ((fifths & vec4(0x01010101u)) << vec4(4u));
    let high = ((packed[2] >> vec4(4u)) & vec4(0x0f0f0f0fu)) | ((fifths & vec4(0x02020202u)) << vec4(3u));
    return array(
        half8_of_bytes(low.x, low.y, 0.0h, s.x, s.z),
        half8_of_bytes(low.z, low.w, 0.0h, s.x, s.z),
        half8_of_bytes(high.x, high.y, 0.0h, s.y, s.w),
        half8_of_bytes(high.z, high.w, 0.0h, s.y, s.w),
    );
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row / 2u * 8u + half8 / 2u * 4u + in_row % 2u * 2u + half8 % 2u;
}
