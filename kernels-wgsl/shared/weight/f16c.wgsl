// F16 in columns: a load holds eight rows of a column.
#import column/eights

fn weight_eight(column: u32, eight: u32) -> mat2x4<f32> {
    return weight_halves(weight[column * weight_eights() + eight]);
}
