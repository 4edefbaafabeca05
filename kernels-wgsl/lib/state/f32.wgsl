// The WKV matrices as f32, four values at a time.
@group(0) @binding(0) var<storage, read_write> weight: array<vec4<f32>>;    // [slots, heads, N, N]: value, key

fn weight_load(i: u32) -> vec4<f32> {
    // sanitizer: allow dropped-race: threads without a row load the last row's state and do not use it
    return weight[i];
}

fn weight_store(i: u32, values: vec4<f32>) {
    weight[i] = values;
}
