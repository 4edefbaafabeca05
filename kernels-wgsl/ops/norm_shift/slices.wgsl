// idea: a token's columns are split among workgroups, SLICE each; every one norms the whole row for itself.
// needs: subgroups
// grid: rows * ceil_div(k, SLICE)
// default: 10
#import lib/op
#import lib/reduce/subgroup

const PLANES: u32 = 6u; // op: planes
const K: u32 = 256u;    // op: k
const WG: u32 = 256u;   // tune: 128 256 512
const SLICE: u32 = 256u;    // tune: 128 256 512
const VEC4S: u32 = K / 4u;

const_assert SLICE <= WG * 4u;  // a slice has a thread for every four columns

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;              // [tokens, k]
@group(0) @binding(2) var<storage, read> scale: array<vec4<f32>>;          // [k]
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;           // [k]
@group(0) @binding(4) var<storage, read> mix: array<vec4<f32>>;            // [planes, k]
@group(0) @binding(5) var<storage, read_write> state: array<vec4<f32>>;    // [slots, k]
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;       // [tokens]
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;       // [segments]: first token, length, slot
@group(0) @binding(8) var<storage, read_write> y: array<vec4<f32>>;        // [planes, tokens, k]

// Mean and 1 / standard deviation of a row.
fn mean_rstd(thread: Thread, start: u32) -> vec2<f32> {
    var sum = vec4<f32>();
    for (var v = thread.tid; v < VEC4S; v += WG) {
        sum += x[start + v];
    }
    let mean = reduce_sum(thread, dot(sum, vec4(1.0))) / f32(K);
    var squares = 0.0;
    for (var v = thread.tid; v < VEC4S; v += WG) {
        let d = x[start + v] - mean;
        squares += dot(d, d);
    }
    return vec2(mean, inverseSqrt(reduce_sum(thread, squares) / f32(K) + params.eps));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    let slices = (K + SLICE - 1u) / SLICE;
    let token = index / slices;
    if token >= params.rows {
        return;
    }
    let segment = segments[token_segments[token]];
    let is_first = token == segment.x;
    let start = token * VEC4S;
    // The other row: the one before, or, for the first token, the last one, bound for the state.
    let other = select(token - 1u, segment.x + segment.y - 1u, is_first) * VEC4S;
    let v = (index % slices) * (SLICE / 4u) + thread.tid;
    let is_own = thread.tid < SLICE / 4u && v < VEC4S;

    // In flight while the rows are normed.
    var from_state: vec4<f32>;
    var scales: vec4<f32>;
    var biases: vec4<f32>;
    if is_own {
        scales = scale[v];
        biases = bias[v];
        if is_first {
            from_state = state[segment.z * VEC4S + v];
        }
    }
    let own_norm = mean_rstd(thread, start);
    var other_norm = own_norm;
    if other != start {
        other_norm = mean_rstd(thread, other);
    }
    if !is_own {
        return;
    }
    let own = (x[start + v] - own_norm.x) * own_norm.y * scales + biases;
    var before = (x[other + v] - other_norm.x) * other_norm.y * scales + biases;
    if is_first {
        state[segment.z * VEC4S + v] = before;
        before = from_state;
    }
    for (var plane = 0u; plane < PLANES; plane++) {
        y[(plane * params.rows + token) * VEC4S + v] = own + (before - own) * mix[plane * VEC4S + v];
    }
}
