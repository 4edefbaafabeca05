// idea: a workgroup norms a token's row and the one before it, and lerps SLICE columns of it, eight a thread, whose mixes are loaded meanwhile.
// needs: subgroups
// grid: rows * ceil_div(K, SLICE)
// default: 5
#import lib/op
#import lib/packed
#import lib/reduce/subgroup

const PLANES: u32 = 6u;         // op: planes
const K: u32 = 256u;            // op: k
const Y_PACKED: bool = false;   // op: y_packed
const WG: u32 = 128u;           // tune: 128 256 320 512 1024
const SLICE: u32 = 512u;        // tune: 512 1024 K
const EIGHTS: u32 = K / 8u;
const EIGHTS_PER_THREAD: u32 = (EIGHTS + WG - 1u) / WG;

const_assert K % 8u == 0u;                      // columns are read by eights
const_assert SLICE % 8u == 0u;                  // slices have whole eights
const_assert SLICE <= WG * 8u;                  // a slice has a thread for every eight columns
const_assert EIGHTS_PER_THREAD <= 8u;           // more of a row than a thread has registers

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;              // [tokens, k]
@group(0) @binding(2) var<storage, read> scale: array<vec4<f32>>;          // [k]
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;           // [k]
@group(0) @binding(4) var<storage, read> mix: array<vec4<f32>>;            // [planes, k]
@group(0) @binding(5) var<storage, read_write> state: array<vec4<f32>>;    // [slots, k]
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;       // [tokens]
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;       // [segments]: first token, length, slot
@group(0) @binding(8) var<storage, read_write> y: array<vec4<f32>>;        // [planes, tokens, k], perhaps packed

// Mean and 1 / standard deviation of a row.
fn mean_rstd(thread: Thread, token: u32) -> vec2<f32> {
    var row: array<vec4<f32>, 2u * EIGHTS_PER_THREAD>;
    var sum = vec4<f32>();
    for (var i = 0u; i < EIGHTS_PER_THREAD; i++) {      // unroll
        let eight = thread.tid + i * WG;
        if eight < EIGHTS {
            row[2u * i] = x[(token * EIGHTS + eight) * 2u];
            row[2u * i + 1u] = x[(token * EIGHTS + eight) * 2u + 1u];
        }
        sum += row[2u * i] + row[2u * i + 1u];
    }
    let mean = reduce_sum(thread, dot(sum, vec4(1.0))) / f32(K);
    var squares = 0.0;
    for (var i = 0u; i < EIGHTS_PER_THREAD; i++) {      // unroll
        if thread.tid + i * WG < EIGHTS {
            let a = row[2u * i] - mean;
            let b = row[2u * i + 1u] - mean;
            squares += dot(a, a) + dot(b, b);
        }
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
    // In flight while the rows are normed. Threads past the slice load its last columns and store nothing.
    let end = min((index % slices + 1u) * (SLICE / 8u), EIGHTS);
    let own_eight = index % slices * (SLICE / 8u) + thread.tid;
    let eight = min(own_eight, end - 1u);
    var scales: array<vec4<f32>, 2>;
    var biases: array<vec4<f32>, 2>;
    var mixes: array<vec4<f32>, 2u * PLANES>;
    for (var h = 0u; h < 2u; h++) {                         // unroll
        scales[h] = scale[eight * 2u + h];
        biases[h] = bias[eight * 2u + h];
        for (var plane = 0u; plane < PLANES; plane++) {     // unroll
            mixes[plane * 2u + h] = mix[plane * (K / 4u) + eight * 2u + h];
        }
    }
    let segment = segments[token_segments[token]];
    let is_first = token == segment.x;
    // The other row: the one before, or, for the first token, the last one, bound for the state.
    let other = select(token - 1u, segment.x + segment.y - 1u, is_first);
    let own_norm = mean_rstd(thread, token);
    let other_norm = mean_rstd(thread, other);
    if own_eight >= end {
        return;
    }
    var own: array<vec4<f32>, 2>;
    var before: array<vec4<f32>, 2>;
    for (var h = 0u; h < 2u; h++) {                         // unroll
        let v = eight * 2u + h;
        own[h] = (x[token * (K / 4u) + v] - own_norm.x) * own_norm.y * scales[h] + biases[h];
        before[h] = (x[other * (K / 4u) + v] - other_norm.x) * other_norm.y * scales[h] + biases[h];
        if is_first {
            let at = segment.z * (K / 4u) + v;
            let last = before[h];
            before[h] = state[at];
            state[at] = last;
        }
    }
    for (var plane = 0u; plane < PLANES; plane++) {         // unroll
        let a = own[0] + (before[0] - own[0]) * mixes[plane * 2u];
        let b = own[1] + (before[1] - own[1]) * mixes[plane * 2u + 1u];
        let at = (plane * params.rows + token) * EIGHTS + eight;
        if Y_PACKED {
            y[at] = bitcast<vec4<f32>>(packed_half8(a, b));
        } else {
            y[at * 2u] = a;
            y[at * 2u + 1u] = b;
        }
    }
}
