// Q4_K, K-major: a word of nibbles for a panel of a column; then three words for a panel of 32 columns, the low nibbles of the
// scales, those of the mins, and the high pairs of both; then two loads for a panel of 256 columns, f16 d and dmin.
// requires: var params
#import lib/quant/k_major

const weight_format: u32 = 15u;

fn weight_column8(column: u32, panel: u32) -> mat2x4<f32> {
    let panels = weight_panels();
    let quants = weight_nibbles(weight_word(column * panels + panel));
    let sixes = params.k * panels;
    let at = sixes + (column / 32u * panels + panel) * 3u;
    let high = weight_word(at + 2u);
    let scales = weight_nibbles(weight_word(at)) + 16.0 * weight_pairs(high);
    let mins = weight_nibbles(weight_word(at + 1u)) + 16.0 * weight_pairs(high >> 2u);
    let supers = (sixes + params.k / 32u * panels * 3u) / 4u + (column / 256u * panels + panel) * 2u;
    let d = weight_times(weight_f16s(weight[supers]), scales);
    return weight_times(d, quants) - weight_times(weight_f16s(weight[supers + 1u]), mins);
}
