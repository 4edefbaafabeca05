// Q8_0 in columns: two words of signed bytes for eight rows of a column; behind them a load of f16 scales for eight rows
// of 32 columns.
#import column/eights

fn weight_eight(column: u32, eight: u32) -> mat2x4<f32> {
    let eights = weight_eights();
    let at = (column * eights + eight) * 2u;
    let scales = weight_halves(weight[params.k * eights / 2u + column / 32u * eights + eight]);
    let first = vec4<f32>(unpack4xI8(weight_word(at)));
    return weight_times(scales, mat2x4<f32>(first, vec4<f32>(unpack4xI8(weight_word(at + 1u)))));
}
