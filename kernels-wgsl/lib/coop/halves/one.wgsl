// precision: f16
// sums: of x in one half
// x rounded to one f16.
#import lib/packed

const HALVES: u32 = 1u;
const HIGH: f32 = PACKED;
const LOW: f32 = 0.0;

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    stage_x_half8(at, packed_half8(a, b));
}
