// The WKV matrices as packed f16, four values at a time. Must match wgoose_kernels::StateFormat.
@group(0) @binding(0) var<storage, read_write> weight: array<vec2<u32>>;    // [slots, heads, N, N]: value, key

// The largest f16: what is beyond it would become infinite, and stay so.
const weight_largest: f32 = 65504.0;

fn weight_load(i: u32) -> vec4<f32> {
    // sanitizer: allow dropped-race: threads without a row load the last row's state and do not use it
    let words = weight[i];
    return vec4(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn weight_store(i: u32, values: vec4<f32>) {
    let bounded = clamp(values, vec4(-weight_largest), vec4(weight_largest));
    // What is no number, or infinite, stays so.
    let is_broken = (bitcast<vec4<u32>>(values) & vec4(0x7f800000u)) == vec4(0x7f800000u);
    let stored = select(bounded, values, is_broken);
    weight[i] = vec2(pack2x16float(stored.xy), pack2x16float(stored.zw));
}
