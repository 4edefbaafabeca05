// Q6_K in columns: a word of low nibbles for eight rows of a column; then a word of high pairs for eight rows of two
// columns; then two words of signed scales for eight rows of 16 columns; then a load of f16 d for eight rows of 256.
#import column/eights

fn weight_eight(column: u32, eight: u32) -> mat2x4<f32> {
    let eights = weight_eights();
    let low = weight_nibbles(weight_word(column * eights + eight));
    let high = params.k * eights;
    let pairs = weight_word(high + column / 2u * eights + eight) >> (column % 2u * 4u);
    let two = mat2x4<f32>(
        vec4<f32>(unpack4xU8(pairs & 0x03030303u)),
        vec4<f32>(unpack4xU8((pairs >> 2u) & 0x03030303u)),
    );
    let scales = high + params.k / 2u * eights;
    let at = scales + (column / 16u * eights + eight) * 2u;
    let d = weight[(scales + params.k / 8u * eights) / 4u + column / 256u * eights + eight];
    let first = vec4<f32>(unpack4xI8(weight_word(at)));
    let scale = weight_times(weight_halves(d), mat2x4<f32>(first, vec4<f32>(unpack4xI8(weight_word(at + 1u)))));
    let codes = low + 16.0 * two;
    return weight_times(scale, mat2x4<f32>(codes[0] - 32.0, codes[1] - 32.0));
}
