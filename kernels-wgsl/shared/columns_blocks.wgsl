// Columns of x rounded to fifteen bits for blocks of K-quants: code = 128 * high + low, both int8, as in
// columns_int16.wgsl. The 128 columns of half a block share a scale, their largest |x| / 16256, so that a product with half a
// block is a sum of integers until its end. NEIGHBOURS of a subgroup share half a block. Needs `const K, WG, NEIGHBOURS`,
// `const SUBS`: into how many sub-blocks half a block is cut, 4 or 8, `fn x_quad`, `room`, and `const HELD`: where in it
// they begin.
#import run_integers

const HALVES: u32 = K / 128u;
const RUNS_OF_SUB: u32 = 8u / SUBS;
// Quads that an invocation rounds at a time, and how many neighbours share a sub-block: fewer than two have it alone.
const EACH: u32 = 32u / NEIGHBOURS;
const NEIGHBOURS_OF_SUB: u32 = 32u / SUBS / EACH;
const GROUPS: u32 = K / 4u / EACH;
// For every half block: sixteen pairs of quads, high and low word of one and of the other, then the sums of four sub-blocks
// at a time as three words with an int8 digit of each, to base 256, and the scale. Halves are neighbours, as the
// invocations that read them.
const INTEGERS: u32 = (16u + SUBS / 4u) * HALVES;

// Rounds the EACH quads of number `i` among groups of as many, if they are there. All invocations must come at once: what
// shuffles where compilers see no uniform control flow is many times as slow.
fn round_quads(i: u32, is_there: bool, quads: array<vec4<f32>, EACH>) {
    var largest = 0.0;
    for (var q = 0u; q < EACH; q++) {           // unroll
        let sizes = abs(quads[q]);
        largest = max(largest, max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)));
    }
    for (var apart = 1u; apart < NEIGHBOURS; apart *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, apart));
    }
    let scale = largest / 16256.0;
    let steps = inverse(scale);
    let half = i / NEIGHBOURS;
    var words: array<vec2<u32>, EACH>;
    var sum = 0;
    for (var q = 0u; q < EACH; q++) {           // unroll
        let codes = nearest(quads[q] * steps);
        let highs = (codes + vec4(64)) >> vec4(7u);
        words[q] = vec2(pack4xI8(highs), pack4xI8(codes - highs * 128));
        sum += 128 * dot4I8Packed(0x01010101u, words[q].x) + dot4I8Packed(0x01010101u, words[q].y);
    }
    // One invocation stores a pair: whoever stores a component of a vector may store all of it.
    let at = HELD + i % NEIGHBOURS * EACH / 2u * HALVES + half;
    if EACH == 1u {
        let other = subgroupShuffleXor(words[0], 1u);
        if is_there && i % 2u == 0u {
            room[at] = vec4(words[0], other);
        }
    } else if is_there {
        for (var pair = 0u; pair < EACH / 2u; pair++) {     // unroll
            room[at + pair * HALVES] = vec4(words[2u * pair], words[2u * pair + 1u]);
        }
    }

    for (var apart = 1u; apart < NEIGHBOURS_OF_SUB; apart *= 2u) {
        sum += subgroupShuffleXor(sum, apart);
    }
    let second = (sum + 128) >> 8u;
    let digits = vec3(sum, second, (second + 128) >> 8u);
    let sub = i % NEIGHBOURS / NEIGHBOURS_OF_SUB;
    var of_four = (bitcast<vec3<u32>>(digits) & vec3(255u)) << vec3(sub % 4u * 8u);
    of_four |= subgroupShuffleXor(of_four, NEIGHBOURS_OF_SUB);
    of_four |= subgroupShuffleXor(of_four, 2u * NEIGHBOURS_OF_SUB);
    if is_there && i % (4u * NEIGHBOURS_OF_SUB) == 0u {
        room[HELD + (16u + sub / 4u) * HALVES + half] = vec4(of_four, bitcast<u32>(scale));
    }
}

fn quads_at(first: u32) -> array<vec4<f32>, EACH> {
    var quads: array<vec4<f32>, EACH>;
    for (var q = 0u; q < EACH; q++) {           // unroll
        quads[q] = x_quad(first + q);
    }
    return quads;
}

// Rounds x from quad `begin` on.
fn round_columns(lane: u32, begin: u32) {
    for (var block = 0u; block < GROUPS; block += WG) {
        let i = block + lane;
        round_quads(i, i < GROUPS, quads_at(begin + min(i, GROUPS - 1u) * EACH));
    }
}

// What half a block says of its codes: weight = d * scale * code - offset * min, scales and mins int8, four in a word.
struct Half {
    scales: vec2<u32>,
    mins: vec2<u32>,
    d: f32,
    offset: f32,
}

fn scale_of(half: Half, sub: u32) -> i32 {
    return extractBits(bitcast<i32>(half.scales[sub / 4u]), sub % 4u * 8u, 8u);
}

// The sum of four mins times the sums of their columns, below 2^29.
fn dot_sums(mins: u32, digits: vec4<u32>) -> i32 {
    return dot4I8Packed(mins, digits.x) + 256 * dot4I8Packed(mins, digits.y) + 65536 * dot4I8Packed(mins, digits.z);
}
