// x split in two f16 (as bf16x3 schemes do), 11 bits each, which together are as exact as what f32 leaves of a sum: the high one
// holds x / 64, for x up to 2^22; what is left, at most 2^-11 of x, is multiplied by 32. Only weights that f16 holds keep that.
const HALVES: u32 = 2u;
const HIGH: f32 = 64.0;
const LOW: f32 = 0.03125;

// The nearest f16, in f32. A 0 that no compiler knows of stands between the conversions: without it an NVIDIA driver takes
// them for the identity, and what is left of x for 0.
fn nearest_halves(x: vec4<f32>) -> vec4<f32> {
    let zero = params.rows >> 31u;
    return vec4(unpack2x16float(pack2x16float(x.xy) ^ zero), unpack2x16float(pack2x16float(x.zw) ^ zero));
}

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    let high_a = nearest_halves(a * (1.0 / HIGH));
    let high_b = nearest_halves(b * (1.0 / HIGH));
    stage_x_half8(at, half8_of(high_a, high_b));
    stage_x_half8(TILE_X + at, half8_of((a - high_a * HIGH) * (1.0 / LOW), (b - high_b * HIGH) * (1.0 / LOW)));
}
