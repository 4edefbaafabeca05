// needs: subgroups
// Sub-blocks of 16 weights as integers, and what all roundings of x to integers share.
const X_IS_F32: bool = false;

// weight = scale * quant - offset
struct W16 {
    words: vec4<u32>,
    scale: f32,
    offset: f32,
}

// The lowest `bits` bits of 16 bytes; of 8 bits they are signed, of fewer bits they are positive as signed bytes too.
fn w16_of(words: vec4<u32>, scale: f32, offset: f32, bits: u32) -> W16 {
    return W16(words & vec4(((1u << bits) - 1u) * 0x01010101u), scale, offset);
}

fn dot_words(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// |x| as an integer, in the same order; NaN is the largest, where a maximum of floats may forget it.
fn magnitude(value: vec4<f32>) -> u32 {
    let four = bitcast<vec4<u32>>(value) & vec4(0x7fffffffu);
    return max(max(four.x, four.y), max(four.z, four.w));
}

// The largest |x| of a sub-block, of which four adjacent lanes have a vec4 each.
fn largest_of_16(value: vec4<f32>) -> f32 {
    var largest = magnitude(value);
    largest = max(largest, subgroupShuffleXor(largest, 1u));
    return bitcast<f32>(max(largest, subgroupShuffleXor(largest, 2u)));
}

// The words of a sub-block, of which four adjacent lanes have one each, for the first of them.
fn words_of_16(word: u32) -> vec4<u32> {
    let two = vec2(word, subgroupShuffleXor(word, 1u));
    return vec4(two, subgroupShuffleXor(two, 2u));
}

// The nearest integers of values below 2^22, ties to even: with 1.5 * 2^23 added, a float has no bits behind its point.
// Conversions take a GPU several times as long.
fn round_to_even(value: vec4<f32>) -> vec4<i32> {
    return bitcast<vec4<i32>>(value + vec4(12582912.0)) - vec4(0x4b400000);
}

// The reciprocal of a scale; that of next to nothing would be infinite.
fn reciprocal(scale: f32) -> f32 {
    return select(0.0, 1.0 / scale, scale > 1e-30);
}
