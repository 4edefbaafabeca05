// Stands in for an operand that this op does not have: nothing is bound, nothing may be read.
fn weight_at(i: u32) -> f32 {
    return 0.0;
}

fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    return array<vec4<f32>, 8>();
}
