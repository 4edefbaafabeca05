// idea: one workgroup per token norms its own row and the row before it, so that no normed row is stored.
// grid: rows
// default: 20
// That of a segment's first token reads the state, then overwrites it with the segment's last row, normed.
#import lib/op
#import lib/reduce/workgroup

const PLANES: u32 = 6u; // op: planes
const WG: u32 = 256u;   // tune: 64 128 256 512 1024

@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [tokens, k]
@group(0) @binding(2) var<storage, read> scale: array<f32>;             // [k]
@group(0) @binding(3) var<storage, read> bias: array<f32>;              // [k]
@group(0) @binding(4) var<storage, read> mix: array<f32>;               // [planes, k]
@group(0) @binding(5) var<storage, read_write> state: array<f32>;       // [slots, k]
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;    // [tokens]
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(8) var<storage, read_write> y: array<f32>;           // [planes, tokens, k]

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

fn normed(start: u32, c: u32, norm: vec2<f32>) -> f32 {
    return (x[start + c] - norm.x) * norm.y * scale[c] + bias[c];
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let token = workgroup_index(workgroup, grid);
    if token >= params.rows {
        return;
    }
    let segment = segments[token_segments[token]];
    let is_first = token == segment.x;
    let start = token * params.k;
    // The other row: the one before, or, for the first token, the last one, bound for the state.
    let other = select(token - 1u, segment.x + segment.y - 1u, is_first) * params.k;
    let own_norm = mean_rstd(thread, start);
    let other_norm = mean_rstd(thread, other);
    for (var c = thread.tid; c < params.k; c += WG) {
        let own = normed(start, c, own_norm);
        var before = normed(other, c, other_norm);
        if is_first {
            let at = segment.z * params.k + c;
            let last = before;
            before = state[at];
            state[at] = last;
        }
        for (var plane = 0u; plane < PLANES; plane++) {
            y[(plane * params.rows + token) * params.k + c] = own + (before - own) * mix[plane * params.k + c];
        }
    }
}
