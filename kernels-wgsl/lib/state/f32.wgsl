// The WKV matrices as f32, four values at a time.
@group(0) @binding(0) var<storage, read_write> weight: array<vec4<f32>>;    // [slots, heads, N, N]: value, key

fn weight_load(i: u32) -> vec4<f32> {
    return weight[i];
}

fn weight_store(i: u32, values: vec4<f32>) {
    weight[i] = values;
}
