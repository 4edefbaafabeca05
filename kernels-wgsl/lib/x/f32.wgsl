// x in f32: sub-blocks of 16 weights times 16 values. A sub-block's scale and offset multiply its sum of products and the sum of x,
// not every weight. `x_vec4(i)` is values 4 i to 4 i + 3 of x, from storage or staged.
//
// Where x is staged in workgroup memory, SUBBLOCKS is how many sub-blocks there is room for, and MIN_SCRATCH the
// elements of
// `scratch` that the kernel uses otherwise.
// requires: const MIN_SCRATCH, SUBBLOCKS, WG, var x, fn x_vec4
const X_IS_F32: bool = true;

struct X16 {
    values: mat4x4<f32>,
    sum: f32,
}

// weight = scale * quant - offset
struct W16 {
    quants: mat4x4<f32>,
    scale: f32,
    offset: f32,
}

// Sub-block `at` of x.
fn load_x16(at: u32) -> X16 {
    let i = at * 4u;
    let values = mat4x4<f32>(x_vec4(i), x_vec4(i + 1u), x_vec4(i + 2u), x_vec4(i + 3u));
    return X16(values, dot(values[0] + values[1] + values[2] + values[3], vec4(1.0)));
}

// The quants of two pairs of f16: bytes 0 and 2 of a word, and bytes 1 and 3.
fn quants_vec4(even: u32, odd: u32) -> vec4<f32> {
    let e = unpack2x16float(even);
    let o = unpack2x16float(odd);
    return vec4(e.x, o.x, e.y, o.y);
}

// The lowest `bits` bits of 16 bytes, signed if 8. Conversions from integers are slow on GPUs, those from f16 are not: a quant
// put on top of the mantissa of the f16 2^bits is 2^bits + quant, two at once. The offset takes the 2^bits back.
fn w16_of(words: vec4<u32>, scale: f32, offset: f32, bits: u32) -> W16 {
    let to = vec4(10u - bits);
    let mask = vec4((((1u << bits) - 1u) << (10u - bits)) * 0x10001u);
    let base = vec4(((15u + bits) << 10u) * 0x10001u);
    let unsigned = words ^ vec4(select(0u, 0x80808080u, bits == 8u));
    let even = ((unsigned << to) & mask) | base;
    let odd = ((unsigned >> (vec4(8u) - to)) & mask) | base;
    let quants = mat4x4<f32>(
        quants_vec4(even.x, odd.x),
        quants_vec4(even.y, odd.y),
        quants_vec4(even.z, odd.z),
        quants_vec4(even.w, odd.w),
    );
    return W16(quants, scale, offset + scale * select(f32(1u << bits), 384.0, bits == 8u));
}

fn dot16(w: W16, x: X16) -> f32 {
    let products = dot(w.quants[0], x.values[0]) + dot(w.quants[1], x.values[1])
        + dot(w.quants[2], x.values[2]) + dot(w.quants[3], x.values[3]);
    return w.scale * products - w.offset * x.sum;
}

var<workgroup> scratch: array<vec4<u32>, max(SUBBLOCKS * 4u, MIN_SCRATCH)>;

// Stages `count` sub-blocks of x from `begin` on, to `place` and on.
fn stage_x(tid: u32, begin: u32, place: u32, count: u32) {
    for (var i = tid; i < count * 4u; i += WG) {
        scratch[place * 4u + i] = bitcast<vec4<u32>>(x[begin * 4u + i]);
    }
}

// Stages vec4 `i` of x out of registers, if it is there.
fn stage_vec4(i: u32, is_there: bool, value: vec4<f32>) {
    if is_there {
        scratch[i] = bitcast<vec4<u32>>(value);
    }
}
