// Runs of sixteen weights as integers, and what roundings of x to integers have in common.

// weight = scale * code - offset
struct Run {
    words: vec4<u32>,
    scale: f32,
    offset: f32,
}

// A run of the lowest `bits` bits of bytes; of 8 bits they are signed, of fewer bits they are positive as signed bytes too.
fn run_of(words: vec4<u32>, scale: f32, offset: f32, bits: u32) -> Run {
    return Run(words & vec4(((1u << bits) - 1u) * 0x01010101u), scale, offset);
}

fn dot_words(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// The largest |x| of a run, of which four neighbours of a subgroup have a quad each.
fn largest_of_run(quad: vec4<f32>) -> f32 {
    let four = abs(quad);
    var largest = max(max(four.x, four.y), max(four.z, four.w));
    largest = max(largest, subgroupShuffleXor(largest, 1u));
    return max(largest, subgroupShuffleXor(largest, 2u));
}

// The nearest integers of values below 2^22, even ones where two are as near: with 1.5 * 2^23 added, a float has nothing
// behind its point. Conversions take a GPU several times as long.
fn nearest(quad: vec4<f32>) -> vec4<i32> {
    return bitcast<vec4<i32>>(quad + vec4(12582912.0)) - vec4(0x4b400000);
}

// The inverse of a scale; that of next to nothing would be infinite.
fn inverse(scale: f32) -> f32 {
    return select(0.0, 1.0 / scale, scale > 1e-30);
}

// The words of a run, of which four neighbours have one each, for the first of them.
fn words_of_run(word: u32) -> vec4<u32> {
    let two = vec2(word, subgroupShuffleXor(word, 1u));
    return vec4(two, subgroupShuffleXor(two, 2u));
}
