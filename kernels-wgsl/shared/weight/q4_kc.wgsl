// Q4_K in columns: a word of nibbles for eight rows of a column; then three words for eight rows of 32 columns, the low
// nibbles of the scales, those of the minima, and the high pairs of both; then two loads for eight rows of 256 columns, f16
// d and dmin.
#import column/eights

fn weight_eight(column: u32, eight: u32) -> mat2x4<f32> {
    let eights = weight_eights();
    let codes = weight_nibbles(weight_word(column * eights + eight));
    let sixes = params.k * eights;
    let at = sixes + (column / 32u * eights + eight) * 3u;
    let high = weight_word(at + 2u);
    let scales = weight_nibbles(weight_word(at)) + 16.0 * weight_pairs(high);
    let minima = weight_nibbles(weight_word(at + 1u)) + 16.0 * weight_pairs(high >> 2u);
    let supers = (sixes + params.k / 32u * eights * 3u) / 4u + (column / 256u * eights + eight) * 2u;
    let d = weight_times(weight_halves(weight[supers]), scales);
    return weight_times(d, codes) - weight_times(weight_halves(weight[supers + 1u]), minima);
}
