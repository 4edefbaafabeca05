// F16, K-major: a load holds a panel of a column.
#import lib/quant/k_major

const weight_format: u32 = 12u;

fn weight_column8(column: u32, panel: u32) -> mat2x4<f32> {
    return weight_f16s(weight[column * weight_panels() + panel]);
}
