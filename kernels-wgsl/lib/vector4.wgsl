// A vector or value that an op may lack, read four elements at a time.
@group(0) @binding(0) var<storage, read> weight: array<vec4<f32>>;    // [m], or [rows, m] of a value

const weight_is_present: bool = true;

fn weight_vec4(i: u32) -> vec4<f32> {
    return weight[i];
}
