// Runs of sixteen weights against columns of x rounded to int8, in workgroup memory. The sixteen columns of a run share
// a scale: their largest |x| / 127. Needs `const WG` and `const RUNS`: how many runs there is room for.
struct Columns {
    words: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

// weight = scale * code - offset
struct Run {
    words: vec4<u32>,
    scale: f32,
    offset: f32,
}

var<workgroup> x_words: array<vec4<u32>, RUNS>;
var<workgroup> x_scales: array<vec2<f32>, RUNS>;

// Rounds `count` runs of x from run `begin` on, into the places from `place` on.
fn round_runs(lane: u32, begin: u32, place: u32, count: u32) {
    for (var i = lane; i < count; i += WG) {
        let at = (begin + i) * 4u;
        let quads = mat4x4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
        let four = max(max(abs(quads[0]), abs(quads[1])), max(abs(quads[2]), abs(quads[3])));
        let largest = max(max(four.x, four.y), max(four.z, four.w));
        let scale = largest / 127.0;
        // The inverse of next to nothing would be infinite.
        let inverse = select(0.0, 1.0 / scale, scale > 1e-30);
        let words = vec4(
            pack4xI8(vec4<i32>(round(quads[0] * inverse))),
            pack4xI8(vec4<i32>(round(quads[1] * inverse))),
            pack4xI8(vec4<i32>(round(quads[2] * inverse))),
            pack4xI8(vec4<i32>(round(quads[3] * inverse))),
        );
        x_words[place + i] = words;
        x_scales[place + i] = vec2(scale, scale * f32(dot_words(words, vec4(0x01010101u))));
    }
}

fn dot_words(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// The rounded columns at a place.
fn columns_at(place: u32) -> Columns {
    let scale_sum = x_scales[place];
    return Columns(x_words[place], scale_sum.x, scale_sum.y);
}

// A run of the lowest `bits` bits of bytes; of 8 bits they are signed, of fewer bits they are positive as signed bytes too.
fn run_of(words: vec4<u32>, scale: f32, offset: f32, bits: u32) -> Run {
    return Run(words & vec4(((1u << bits) - 1u) * 0x01010101u), scale, offset);
}

fn dot_run(w: Run, x: Columns) -> f32 {
    return w.scale * x.scale * f32(dot_words(w.words, x.words)) - w.offset * x.sum;
}
