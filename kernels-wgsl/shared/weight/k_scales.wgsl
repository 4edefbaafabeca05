// What Q4_K and Q5_K share: the first 16 bytes of a block, f16 d and dmin, then eight six-bit scales and mins.
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;

// Scale and min of sub-block `sub`, times d and dmin.
fn weight_scale_min(head: vec4<u32>, sub: u32) -> vec2<f32> {
    let super_scales = unpack2x16float(head.x);
    let byte = (sub % 4u) * 8u;
    let low = (head.y >> byte) & 0xffu;
    let middle = (head.z >> byte) & 0xffu;
    let high = (head.w >> byte) & 0xffu;
    if sub < 4u {
        return super_scales * vec2(f32(low & 63u), f32(middle & 63u));
    }
    return super_scales * vec2(f32((high & 15u) | ((low >> 6u) << 4u)), f32((high >> 4u) | ((middle >> 6u) << 4u)));
}
