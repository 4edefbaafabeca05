// Q4_0, K-major: a word of nibbles for a panel of a column; behind them a load of f16 scales for a panel of 32 columns.
// requires: var params
#import lib/quant/k_major

const weight_format: u32 = 14u;

fn weight_column8(column: u32, panel: u32) -> mat2x4<f32> {
    let panels = weight_panels();
    let scales = weight_f16s(weight[params.k * panels / 4u + column / 32u * panels + panel]);
    let quants = weight_nibbles(weight_word(column * panels + panel));
    return weight_times(scales, mat2x4<f32>(quants[0] - 8.0, quants[1] - 8.0));
}
