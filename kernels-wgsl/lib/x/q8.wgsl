// precision: q8
// x rounded to int8, staged in workgroup memory. A sub-block of 16 shares a scale: its largest |x| / 127. There is room
// for
// SUBBLOCKS sub-blocks, an even number; MIN_SCRATCH is the elements of `scratch` that the kernel uses otherwise.
// requires: const MIN_SCRATCH, SUBBLOCKS, WG, var x
#import lib/x/integers

struct X16 {
    words: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

// The words of every sub-block, then scales and sums, those of two sub-blocks together.
var<workgroup> scratch: array<vec4<u32>, max(SUBBLOCKS + SUBBLOCKS / 2u, MIN_SCRATCH)>;

// Four adjacent lanes quantise one sub-block; every eighth lane stores two scales.
fn stage_rounded(at: u32, i: u32, is_there: bool, value: vec4<f32>) {
    let scale = largest_of_16(value) / 127.0;
    let words = words_of_16(pack4xI8(round_to_even(value * reciprocal(scale))));
    let scale_sum = vec2(scale, scale * f32(dot_words(words, vec4(0x01010101u))));
    let other = subgroupShuffleXor(scale_sum, 4u);
    if is_there && i % 4u == 0u {
        scratch[at] = words;
    }
    if is_there && i % 8u == 0u {
        scratch[SUBBLOCKS + at / 2u] = bitcast<vec4<u32>>(vec4(scale_sum, other));
    }
}

// Stages `count` sub-blocks of x from `begin` on, to `place` and on; count and place are even.
fn stage_x(tid: u32, begin: u32, place: u32, count: u32) {
    // Uniform trip count: a shuffle under non-uniform control flow compiles to a slow call.
    for (var block = 0u; block < count * 4u; block += WG) {
        let i = block + tid;
        stage_rounded(place + i / 4u, i, i < count * 4u, x[begin * 4u + min(i, count * 4u - 1u)]);
    }
}

// Stages vec4 `i` of x out of registers, if it is there. All threads of a subgroup call this together, with `i` as far from a
// multiple of eight as their number.
fn stage_vec4(i: u32, is_there: bool, value: vec4<f32>) {
    stage_rounded(i / 4u, i, is_there, value);
}

// The rounded x at a place.
fn load_x16(place: u32) -> X16 {
    let both = bitcast<vec4<f32>>(scratch[SUBBLOCKS + place / 2u]);
    let scale_sum = select(both.xy, both.zw, place % 2u == 1u);
    return X16(scratch[place], scale_sum.x, scale_sum.y);
}

fn dot16(w: W16, x: X16) -> f32 {
    return w.scale * x.scale * f32(dot_words(w.words, x.words)) - w.offset * x.sum;
}
