// Q6_K, K-major: a word of low nibbles for a panel of a column; then a word of high pairs for a panel of two columns; then two
// words of signed scales for a panel of 16 columns; then a load of f16 d for a panel of 256.
// requires: var params
#import lib/quant/k_major

const weight_format: u32 = 16u;

fn weight_column8(column: u32, panel: u32) -> mat2x4<f32> {
    let panels = weight_panels();
    let low = weight_nibbles(weight_word(column * panels + panel));
    let high = params.k * panels;
    let pairs = weight_word(high + column / 2u * panels + panel) >> (column % 2u * 4u);
    let two = mat2x4<f32>(
        vec4<f32>(unpack4xU8(pairs & 0x03030303u)),
        vec4<f32>(unpack4xU8((pairs >> 2u) & 0x03030303u)),
    );
    let scales = high + params.k / 2u * panels;
    let at = scales + (column / 16u * panels + panel) * 2u;
    let d = weight[(scales + params.k / 8u * panels) / 4u + column / 256u * panels + panel];
    let first = vec4<f32>(unpack4xI8(weight_word(at)));
    let scale = weight_times(weight_f16s(d), mat2x4<f32>(first, vec4<f32>(unpack4xI8(weight_word(at + 1u)))));
    let quants = low + 16.0 * two;
    return weight_times(scale, mat2x4<f32>(quants[0] - 32.0, quants[1] - 32.0));
}
