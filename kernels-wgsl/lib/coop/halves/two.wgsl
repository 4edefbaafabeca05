// sums: of x in two halves
// x split in two f16 (as bf16x3 schemes do). Only weights that f16 holds keep that exact.
#import lib/halves

const HALVES: u32 = 2u;

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    let high_a = nearest_halves(a * (1.0 / HIGH));
    let high_b = nearest_halves(b * (1.0 / HIGH));
    stage_x_half8(at, half8_of(high_a, high_b));
    stage_x_half8(TILE_X + at, half8_of((a - high_a * HIGH) * (1.0 / LOW), (b - high_b * HIGH) * (1.0 / LOW)));
}
