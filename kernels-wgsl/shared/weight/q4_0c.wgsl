// Q4_0 in columns: a word of nibbles for eight rows of a column; behind them a load of f16 scales for eight rows of 32
// columns.
#import column/eights

fn weight_eight(column: u32, eight: u32) -> mat2x4<f32> {
    let eights = weight_eights();
    let scales = weight_halves(weight[params.k * eights / 4u + column / 32u * eights + eight]);
    let codes = weight_nibbles(weight_word(column * eights + eight));
    return weight_times(scales, mat2x4<f32>(codes[0] - 8.0, codes[1] - 8.0));
}
