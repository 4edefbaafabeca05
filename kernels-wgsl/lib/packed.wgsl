// Values as packed f16, two to a word: what kernels of the matrix units make of x. Each is stored as its sixteenth: values up to a
// million stay finite, and those above a thousandth are rounded to 11 bits. Must match wgoose_kernels::Packed.
const PACKED: f32 = 16.0;

fn packed_pair(values: vec2<f32>) -> u32 {
    return pack2x16float(values * (1.0 / PACKED));
}

// Eight values, in the 16 bytes of a vec4.
fn packed_half8(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
    return vec4(packed_pair(a.xy), packed_pair(a.zw), packed_pair(b.xy), packed_pair(b.zw));
}
