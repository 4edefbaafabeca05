// precision: f16
// sums: of x in one limb
// x rounded to one f16.
// requires: fn stage_x_half8
#import lib/packed

const LIMBS: u32 = 1u;
const HIGH: f32 = PACKED;
const LOW: f32 = 0.0;

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    stage_x_half8(at, packed_half8(a, b));
}
