// precision: f16
// x rounded to one f16, as its sixteenth: values up to a million stay finite, and those above a thousandth are rounded to 11 bits.
const HALVES: u32 = 1u;
const HIGH: f32 = 16.0;
const LOW: f32 = 0.0;

fn stage_x(at: u32, a: vec4<f32>, b: vec4<f32>) {
    stage_x_half8(at, half8_of(a * (1.0 / HIGH), b * (1.0 / HIGH)));
}
