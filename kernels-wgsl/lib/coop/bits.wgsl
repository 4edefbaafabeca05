// needs: f16
// Packed f16 as bits. No f16 is ever in a register of its own between storage and workgroup memory: NVIDIA's compiler takes them
// apart there. `bits_as_half2` and `half2_as_bits` are plain bit casts once crates/runtime/src/pipelines/spirv/reinterpret.rs has
// patched their calls; unpatched they compute the same.
fn bits_as_half2(bits: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float(bits));
}

fn half2_as_bits(pair: vec2<f16>) -> u32 {
    return pack2x16float(vec2<f32>(pair));
}

// Eight values as packed f16.
fn half8_of(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
    return vec4(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
}

// `scale * (byte - zero) + offset` of the four bytes of a word. A byte on top of the mantissa of the f16 1024 is 1024 + byte.
fn half4_of_bytes(bytes: u32, zero: f16, scale: f16, offset: f16) -> vec2<u32> {
    let bias = vec2<f16>(1024.0h + zero);
    let even = bits_as_half2((bytes & 0x00ff00ffu) | 0x64006400u) - bias;
    let odd = bits_as_half2(((bytes >> 8u) & 0x00ff00ffu) | 0x64006400u) - bias;
    let evens = half2_as_bits(fma(even, vec2(scale), vec2(offset)));
    let odds = half2_as_bits(fma(odd, vec2(scale), vec2(offset)));
    return vec2((evens & 0xffffu) | (odds << 16u), (evens >> 16u) | (odds & 0xffff0000u));
}

// The same of eight bytes.
fn half8_of_bytes(a: u32, b: u32, zero: f16, scale: f16, offset: f16) -> vec4<u32> {
    return vec4(half4_of_bytes(a, zero, scale, offset), half4_of_bytes(b, zero, scale, offset));
}
