// Q6_K interleaved by eight: eight super-blocks are 105 loads. Loads 0 to 63: eight of low nibbles for each block; loads 64 to
// 95: four of high bit pairs each; loads 96 to 103: the 16 signed scales of a block each; load 104: the eight f16 d. Which
// weight has which bits of its block: as in q6_k.
// requires: const HALF_BLOCKS, K, ROWS, type HalfBlock, HalfBlockWords, W16, X16, fn dot16, half8_of_bytes, load_x16
// requires: fn w16_of
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [shard_rows, k] in Q6_K_X8

const weight_is_present: bool = true;
const weight_format: u32 = 11u;
const weight_is_float: bool = false;
const weight_has_integers: bool = true;

// The scale of weights 16 * group16 .. of the block.
fn weight_scale(block: u32, group16: u32) -> f32 {
    let first = block / 8u * 105u;
    let place = block % 8u;
    let scale = unpack4xI8(weight[first + 96u + place][group16 / 4u])[group16 % 4u];
    return unpack2x16float(weight[first + 104u][place / 2u])[place % 2u] * f32(scale);
}

// The six-bit quants of weights 16 * group16 .. of the block, as four words of bytes.
fn weight_quants(block: u32, group16: u32) -> vec4<u32> {
    let first = block / 8u * 105u;
    let place = block % 8u;
    let half_block = group16 / 8u;
    let part = group16 % 8u / 2u;
    let low = weight[first + place * 8u + half_block * 4u + part % 2u * 2u + group16 % 2u] >> vec4(part / 2u * 4u);
    let high = weight[first + 64u + place * 4u + half_block * 2u + group16 % 2u] >> vec4(part * 2u);
    return (low & vec4(0x0f0f0f0fu)) | ((high & vec4(0x03030303u)) << vec4(4u));
}

fn weight_value(i: u32) -> f32 {
    let block = i / 256u;
    let group16 = i % 256u / 16u;
    let quants = unpack4xU8(weight_quants(block, group16)[i % 16u / 4u]);
    return weight_scale(block, group16) * (f32(quants[i % 4u]) - 32.0);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var part16 = 0u; part16 < 2u; part16++) {
        let group16 = group % 8u * 2u + part16;
        let scale = weight_scale(group / 8u, group16);
        let quants = weight_quants(group / 8u, group16);
        for (var i = 0u; i < 4u; i++) {
            out[part16 * 4u + i] = scale * (vec4<f32>(unpack4xU8(quants[i])) - 32.0);
        }
    }
    return out;
}

// Packed: a block is eight loads of low nibbles, whose low and high halves are 64 weights apart.
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
    let low = load / 4u * 8u + load % 4u;
    return vec2(low, low + 4u);
}

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    let block = row * (K / 256u) + load / 8u;
    return weight[block / 8u * 105u + block % 8u * 8u + load % 8u];
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    let block = row * (K / 256u) + load / 8u;
    let i = load % 8u;
    let first = block / 8u * 105u;
    let place = block % 8u;
    let pairs = weight[first + 64u + place * 4u + i / 4u * 2u + i % 2u] >> vec4(i / 2u % 2u * 2u);
    let low = (packed & vec4(0x0f0f0f0fu)) | ((pairs << vec4(4u)) & vec4(0x30303030u));
    let high = ((packed >> vec4(4u)) & vec4(0x0f0f0f0fu)) | (pairs & vec4(0x30303030u));
    let groups = weight_sub_blocks(i);
    let scales = vec2(weight_scale(block, groups.x), weight_scale(block, groups.y));
    return weight_values(w16_of(low, scales.x, 32.0 * scales.x, 6u), w16_of(high, scales.y, 32.0 * scales.y, 6u));
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

// Half a super-block for integer products: four loads of low nibbles, two of high pairs, then the scales of its eight
// sub-blocks of 16 weights, the word with its d and how far up in it that is.
const weight_k_sub_blocks: u32 = 8u;
const weight_k_loads: u32 = 7u;

fn weight_load_half_block(row: u32, half_block: u32) -> HalfBlockWords {
    let block = row * (K / 256u) + half_block / 2u;
    let first = block / 8u * 105u;
    let place = block % 8u;
    let own = half_block % 2u;
    let low = first + place * 8u + own * 4u;
    let high = first + 64u + place * 4u + own * 2u;
    let scales = first + 96u + place;
    return HalfBlockWords(
        weight[low], weight[low + 1u], weight[low + 2u], weight[low + 3u],
        weight[high], weight[high + 1u],
        vec4(
            weight[scales][own * 2u],
            weight[scales][own * 2u + 1u],
            weight[first + 104u][place / 2u],
            place % 2u * 16u,
        ),
    );
}

fn weight_half_block(words: HalfBlockWords, half_block: u32) -> HalfBlock {
    let scales = words[6].xy;
    let d = unpack2x16float(words[6].z >> words[6].w).x;
    return HalfBlock(scales, scales, d, 32.0 * d);
}

// The quants of sixteen weights.
fn weight_quants16(words: HalfBlockWords, half_block: u32, group: u32) -> vec4<u32> {
    let low = (words[group % 4u] >> vec4(group / 4u * 4u)) & vec4(0x0f0f0f0fu);
    // Bits 2 part and 2 part + 1 of every byte to 4 and 5: up, or for the last part down.
    let part = group / 2u;
    let pairs = (words[4u + group % 2u] << vec4(4u - min(2u * part, 4u))) >> vec4(max(2u * part, 4u) - 4u);
    return low | (pairs & vec4(0x30303030u));
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

// For the matrix units (lib/coop): a part is 32 weights; then as packed f16, and where in the row of a K-tile each eight of them are.
const weight_part_values: u32 = 32u;
const weight_part_loads: u32 = 5u;
const weight_part_span: u32 = 32u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 5> {
    let block = row * (K / 256u) + part / 8u;
    let first = block / 8u * 105u;
    let place = block % 8u;
    let half_block = part % 8u / 4u;
    let low = first + place * 8u + half_block * 4u + part % 2u * 2u;
    let high = first + 64u + place * 4u + half_block * 2u;
    let scales = weight[first + 96u + place][part % 8u / 2u] >> (part % 2u * 16u);
    let d = weight[first + 104u][place / 2u] >> (place % 2u * 16u);
    return array(weight[low], weight[low + 1u], weight[high], weight[high + 1u], vec4(scales, d, 0u, 0u));
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
