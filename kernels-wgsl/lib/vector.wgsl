// A vector or value that an op may lack, read element by element.
@group(0) @binding(0) var<storage, read> weight: array<f32>;    // [m], or [rows, m] of a value

const weight_is_present: bool = true;

fn weight_value(i: u32) -> f32 {
    return weight[i];
}
