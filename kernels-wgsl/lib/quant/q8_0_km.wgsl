// Q8_0, K-major: two words of signed bytes for a panel of a column; behind them a load of f16 scales for a panel of 32
// columns.
// requires: var params
#import lib/quant/k_major

const weight_format: u32 = 13u;

fn weight_column8(column: u32, panel: u32) -> mat2x4<f32> {
    let panels = weight_panels();
    let at = (column * panels + panel) * 2u;
    let scales = weight_f16s(weight[params.k * panels / 2u + column / 32u * panels + panel]);
    let first = vec4<f32>(unpack4xI8(weight_word(at)));
    return weight_times(scales, mat2x4<f32>(first, vec4<f32>(unpack4xI8(weight_word(at + 1u)))));
}
