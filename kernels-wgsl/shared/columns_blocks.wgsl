// Columns of x rounded to fifteen bits for blocks of K-quants: code = 128 * high + low, both int8, as in
// columns_int16.wgsl. The 128 columns of half a block share a scale, their largest |x| / 16256, so that a product with half a
// block is a sum of integers until its end. Needs `const K, WG`, `const SUBS`: into how many sub-blocks half a block is cut,
// 4 or 8, `fn x_quad`, `room`, and `const HELD`: where in it they begin.
#import run_integers

const HALVES: u32 = K / 128u;
const RUNS_OF_SUB: u32 = 8u / SUBS;
// For every half block: eight runs of high words, as many of low ones, then the sums of four sub-blocks at a time as three
// words with an int8 digit of each, to base 256, and the scale. Halves are neighbours, as the invocations that read them.
const INTEGERS: u32 = (16u + SUBS / 4u) * HALVES;

// Rounds x from quad `begin` on. Eight neighbours of a subgroup share half a block, one run of sixteen each.
fn round_columns(lane: u32, begin: u32) {
    for (var i = lane; i < K / 16u; i += WG) {
        let at = begin + i * 4u;
        let quads = array(x_quad(at), x_quad(at + 1u), x_quad(at + 2u), x_quad(at + 3u));
        let sizes = max(max(abs(quads[0]), abs(quads[1])), max(abs(quads[2]), abs(quads[3])));
        var largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
        largest = max(largest, subgroupShuffleXor(largest, 1u));
        largest = max(largest, subgroupShuffleXor(largest, 2u));
        largest = max(largest, subgroupShuffleXor(largest, 4u));
        let scale = largest / 16256.0;
        let steps = inverse(scale);
        var high: vec4<u32>;
        var low: vec4<u32>;
        for (var q = 0u; q < 4u; q++) {         // unroll
            let codes = vec4<i32>(round(quads[q] * steps));
            let highs = (codes + vec4(64)) >> vec4(7u);
            high[q] = pack4xI8(highs);
            low[q] = pack4xI8(codes - highs * 128);
        }
        let half = i / 8u;
        let run = i % 8u;
        room[HELD + run * HALVES + half] = high;
        room[HELD + (8u + run) * HALVES + half] = low;

        let ones = vec4(0x01010101u);
        var sum = 128 * dot_words(ones, high) + dot_words(ones, low);
        if RUNS_OF_SUB == 2u {
            sum += subgroupShuffleXor(sum, 1u);
        }
        let second = (sum + 128) >> 8u;
        let digits = vec3(sum, second, (second + 128) >> 8u);
        var words = (bitcast<vec3<u32>>(digits) & vec3(255u)) << vec3(run / RUNS_OF_SUB % 4u * 8u);
        words |= subgroupShuffleXor(words, RUNS_OF_SUB);
        words |= subgroupShuffleXor(words, 2u * RUNS_OF_SUB);
        if run % (4u * RUNS_OF_SUB) == 0u {
            let four = 16u + run / (4u * RUNS_OF_SUB);
            room[HELD + four * HALVES + half] = vec4(words, bitcast<u32>(scale));
        }
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
