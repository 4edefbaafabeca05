// What plain variants need of a norm and a token shift: one workgroup for one token, columns mixed where they are read.
// Needs `const WG`.
#import params
#import reduce_workgroup

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> scale: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> mix: array<f32>;
@group(0) @binding(5) var<storage, read> state: array<f32>;
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;

// A token's row and the one before it, or the state.
struct Rows {
    own: u32,               // first element of x
    own_moments: vec2<f32>,
    other: u32,             // first element of x, or of the state
    other_moments: vec2<f32>,
    is_first: bool,
}

// Mean and 1 / deviation of a row.
fn moments(lane: u32, start: u32) -> vec2<f32> {
    var sum = 0.0;
    for (var c = lane; c < params.k; c += WG) {
        sum += x[start + c];
    }
    let mean = workgroup_sum(lane, sum) / f32(params.k);
    var squares = 0.0;
    for (var c = lane; c < params.k; c += WG) {
        let d = x[start + c] - mean;
        squares += d * d;
    }
    return vec2(mean, inverseSqrt(workgroup_sum(lane, squares) / f32(params.k) + params.eps));
}

fn rows_at(token: u32, lane: u32) -> Rows {
    let segment = segments[token_segments[token]];
    let own = token * params.k;
    if token == segment.x {
        return Rows(own, moments(lane, own), segment.z * params.k, vec2<f32>(), true);
    }
    return Rows(own, moments(lane, own), own - params.k, moments(lane, own - params.k), false);
}

fn normed(start: u32, moments: vec2<f32>, c: u32) -> f32 {
    return (x[start + c] - moments.x) * moments.y * scale[c] + bias[c];
}

fn mixed(rows: Rows, plane: u32, c: u32) -> f32 {
    let own = normed(rows.own, rows.own_moments, c);
    var before: f32;
    if rows.is_first {
        before = state[rows.other + c];
    } else {
        before = normed(rows.other, rows.other_moments, c);
    }
    return own + (before - own) * mix[plane * params.k + c];
}
