// Runs of sixteen weights against columns of x in f32. A run's scale and offset meet its sum of products and the sum of
// x, not every weight. Needs `fn x_quad(i: u32) -> vec4<f32>`.
struct Columns {
    quads: mat4x4<f32>,
    sum: f32,
}

// weight = scale * code - offset
struct Run {
    codes: mat4x4<f32>,
    scale: f32,
    offset: f32,
}

// Sixteen columns of x, from column 16 * run on.
fn columns_at(run: u32) -> Columns {
    let at = run * 4u;
    let quads = mat4x4<f32>(x_quad(at), x_quad(at + 1u), x_quad(at + 2u), x_quad(at + 3u));
    return Columns(quads, dot(quads[0] + quads[1] + quads[2] + quads[3], vec4(1.0)));
}

// The codes of two pairs of f16, which are bytes 0 and 2 of a word and bytes 1 and 3.
fn code_quad(even: u32, odd: u32) -> vec4<f32> {
    let e = unpack2x16float(even);
    let o = unpack2x16float(odd);
    return vec4(e.x, o.x, e.y, o.y);
}

// A run of the lowest `bits` bits of bytes, signed if 8. Conversions from integers are slow on GPUs, those from f16 are not: a code
// put on top of the mantissa of the f16 2^bits is 2^bits + code, two at once. The offset takes the 2^bits back.
fn run_of(words: vec4<u32>, scale: f32, offset: f32, bits: u32) -> Run {
    let to = vec4(10u - bits);
    let mask = vec4((((1u << bits) - 1u) << (10u - bits)) * 0x10001u);
    let base = vec4(((15u + bits) << 10u) * 0x10001u);
    let unsigned = words ^ vec4(select(0u, 0x80808080u, bits == 8u));
    let even = ((unsigned << to) & mask) | base;
    let odd = ((unsigned >> (vec4(8u) - to)) & mask) | base;
    let codes = mat4x4<f32>(
        code_quad(even.x, odd.x),
        code_quad(even.y, odd.y),
        code_quad(even.z, odd.z),
        code_quad(even.w, odd.w),
    );
    return Run(codes, scale, offset + scale * select(f32(1u << bits), 384.0, bits == 8u));
}

fn dot_run(w: Run, x: Columns) -> f32 {
    let products = dot(w.codes[0], x.quads[0]) + dot(w.codes[1], x.quads[1])
        + dot(w.codes[2], x.quads[2]) + dot(w.codes[3], x.quads[3]);
    return w.scale * products - w.offset * x.sum;
}
