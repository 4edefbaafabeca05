// What naive variants need of a norm and a token shift: one workgroup for one token, columns lerped where they are
// read.
// requires: const WG
#import lib/op
#import lib/reduce/workgroup

@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [tokens, k]
@group(0) @binding(2) var<storage, read> scale: array<f32>;             // [k]
@group(0) @binding(3) var<storage, read> bias: array<f32>;              // [k]
@group(0) @binding(4) var<storage, read> mix: array<f32>;               // [planes, k]
@group(0) @binding(5) var<storage, read> state: array<f32>;             // [slots, k]
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;    // [tokens]
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot

// A token's row and the one before it, or the state.
struct NormedRows {
    own: u32,               // first element of x
    own_norm: vec2<f32>,
    other: u32,             // first element of x, or of the state
    other_norm: vec2<f32>,
    is_first: bool,
}

// Mean and 1 / standard deviation of a row.
fn mean_rstd(thread: Thread, start: u32) -> vec2<f32> {
    var sum = 0.0;
    for (var c = thread.tid; c < params.k; c += WG) {
        sum += x[start + c];
    }
    let mean = reduce_sum(thread, sum) / f32(params.k);
    var squares = 0.0;
    for (var c = thread.tid; c < params.k; c += WG) {
        let d = x[start + c] - mean;
        squares += d * d;
    }
    return vec2(mean, inverseSqrt(reduce_sum(thread, squares) / f32(params.k) + params.eps));
}

fn norm_rows(token: u32, thread: Thread) -> NormedRows {
    let segment = segments[token_segments[token]];
    let own = token * params.k;
    if token == segment.x {
        return NormedRows(own, mean_rstd(thread, own), segment.z * params.k, vec2<f32>(), true);
    }
    return NormedRows(own, mean_rstd(thread, own), own - params.k, mean_rstd(thread, own - params.k), false);
}

fn normed(start: u32, norm: vec2<f32>, c: u32) -> f32 {
    return (x[start + c] - norm.x) * norm.y * scale[c] + bias[c];
}

// Column c of plane `plane`: the token-shift lerp.
fn shifted(rows: NormedRows, plane: u32, c: u32) -> f32 {
    let own = normed(rows.own, rows.own_norm, c);
    var before: f32;
    if rows.is_first {
        before = state[rows.other + c];
    } else {
        before = normed(rows.other, rows.other_norm, c);
    }
    return own + (before - own) * mix[plane * params.k + c];
}
