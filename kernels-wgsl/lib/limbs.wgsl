// x as two f16 limbs, as Ootomo and Yokota split f32 ("Recovering single precision accuracy from Tensor Cores while
// surpassing the FP32 theoretical peak performance", 2022). Matrix units multiply f16, exactly, and sum in f32. The two
// f16 of x have 11 bits each, which together are as exact as what f32 leaves of a sum: the high one holds x / 64, for x
// up to 2^22; what is left, at most 2^-11 of x, is multiplied by 32.
#import lib/op

const HIGH: f32 = 64.0;
const LOW: f32 = 0.03125;

// The nearest f16, in f32. A 0 that no compiler knows of stands between the conversions: without it an NVIDIA driver
// takes
// them for the identity, and what is left of x for 0.
fn nearest_f16s(x: vec4<f32>) -> vec4<f32> {
    let zero = params.rows >> 31u;
    return vec4(unpack2x16float(pack2x16float(x.xy) ^ zero), unpack2x16float(pack2x16float(x.zw) ^ zero));
}
