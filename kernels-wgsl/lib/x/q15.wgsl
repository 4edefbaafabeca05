// precision: q15
// x rounded to 15 bits, staged in workgroup memory: quant = 128 * high + low, two int8 limbs, high in -127..127 and low in
// -64..63. A sub-block of 16 shares a scale: its largest |x| / 16256. There is room for SUBBLOCKS sub-blocks, an even
// number; MIN_SCRATCH is the elements of `scratch` that the kernel uses otherwise.
// requires: const MIN_SCRATCH, SUBBLOCKS, WG, var x
#import lib/x/integers

struct X16 {
    high: vec4<u32>,
    low: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

// High and low limbs of every sub-block, then scales and sums, those of two sub-blocks together.
var<workgroup> scratch: array<vec4<u32>, max(2u * SUBBLOCKS + SUBBLOCKS / 2u, MIN_SCRATCH)>;

// Stages `count` sub-blocks of x from `begin` on, to `place` and on; count and place are even. Four adjacent lanes quantise one
// sub-block; every eighth lane stores two scales.
fn stage_x(tid: u32, begin: u32, place: u32, count: u32) {
    // Uniform trip count: a shuffle under non-uniform control flow compiles to a slow call.
    for (var block = 0u; block < count * 4u; block += WG) {
        let i = block + tid;
        let is_there = i < count * 4u;
        let value = x[begin * 4u + min(i, count * 4u - 1u)];
        let scale = largest_of_16(value) / 16256.0;
        let quants = round_to_even(value * reciprocal(scale));
        let highs = (quants + vec4(64)) >> vec4(7u);
        let high = words_of_16(pack4xI8(highs));
        let low = words_of_16(pack4xI8(quants - highs * 128));
        let scale_sum = vec2(scale, scale * f32(dot_limbs(vec4(0x01010101u), high, low)));
        let other = subgroupShuffleXor(scale_sum, 4u);
        let at = place + i / 4u;
        if is_there && i % 4u == 0u {
            scratch[at] = high;
            scratch[SUBBLOCKS + at] = low;
        }
        if is_there && i % 8u == 0u {
            scratch[2u * SUBBLOCKS + at / 2u] = bitcast<vec4<u32>>(vec4(scale_sum, other));
        }
    }
}

// Below 2^26 for sixteen int8.
fn dot_limbs(words: vec4<u32>, high: vec4<u32>, low: vec4<u32>) -> i32 {
    return 128 * dot_words(words, high) + dot_words(words, low);
}

// The rounded x at a place.
fn load_x16(place: u32) -> X16 {
    let both = bitcast<vec4<f32>>(scratch[2u * SUBBLOCKS + place / 2u]);
    let scale_sum = select(both.xy, both.zw, place % 2u == 1u);
    return X16(scratch[place], scratch[SUBBLOCKS + place], scale_sum.x, scale_sum.y);
}

fn dot16(w: W16, x: X16) -> f32 {
    return w.scale * x.scale * f32(dot_limbs(w.words, x.high, x.low)) - w.offset * x.sum;
}
