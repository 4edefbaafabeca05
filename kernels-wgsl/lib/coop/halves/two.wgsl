// sums: of x in two limbs
// x split in two f16 limbs (lib/limbs). Only weights that f16 holds keep that exact.
// requires: const TILE_X, fn half8_of, stage_x_half8
#import lib/limbs

const LIMBS: u32 = 2u;

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    let high_a = nearest_f16s(a * (1.0 / HIGH));
    let high_b = nearest_f16s(b * (1.0 / HIGH));
    stage_x_half8(at, half8_of(high_a, high_b));
    stage_x_half8(TILE_X + at, half8_of(low_limb(a, high_a), low_limb(b, high_b)));
}

// What the high limb leaves of x: nothing of an infinity, which stays one.
fn low_limb(x: vec4<f32>, high: vec4<f32>) -> vec4<f32> {
    return select((x - high * HIGH) * (1.0 / LOW), vec4<f32>(), abs(high) > vec4(65504.0));
}
