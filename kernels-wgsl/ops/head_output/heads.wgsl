// idea: THREADS_PER_ROW threads share a head of a token, each with adjacent channels; several heads a workgroup.
// grid: ceil_div(rows * heads, WG / THREADS_PER_ROW)
// default: 10
#import lib/op
#import lib/packed
#import lib/row_reduce/subgroup     // tune: subgroup workgroup
#import lib/vector4 as v_first binding 5
#import lib/vector4 as gate binding 6

const N: u32 = 64u;                     // op: head_size
const Y_PACKED: bool = false;           // op: y_packed
const WG: u32 = 128u;                   // tune: 64 128 256
const MAX_THREADS_PER_ROW: u32 = 8u;    // tune: 4 8 16
const VEC4S: u32 = N / 4u;
// A row is a head of a token.
const THREADS_PER_ROW: u32 = min(MAX_THREADS_PER_ROW, VEC4S);
const VEC4S_PER_THREAD: u32 = VEC4S / THREADS_PER_ROW;

const_assert N % (4u * THREADS_PER_ROW) == 0u;      // a thread has at least four channels
const_assert WG % THREADS_PER_ROW == 0u;            // a workgroup has whole heads
const_assert !Y_PACKED || VEC4S_PER_THREAD % 2u == 0u;      // packed, a thread stores eight channels at once

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> r: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> k: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(4) var<storage, read> v: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> g: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(9) var<storage, read> k_a: array<vec4<f32>>;         // [heads, N]
@group(0) @binding(10) var<storage, read> r_k: array<vec4<f32>>;        // [heads, N]
@group(0) @binding(11) var<storage, read> scale: array<vec4<f32>>;      // [heads, N]
@group(0) @binding(12) var<storage, read> bias: array<vec4<f32>>;       // [heads, N]
@group(0) @binding(13) var<storage, read_write> y: array<vec4<f32>>;    // [tokens, heads, N], perhaps packed

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    // Rows are clamped: threads past the last row compute it again and store nothing.
    let row = workgroup_index(workgroup, grid) * (WG / THREADS_PER_ROW) + tid / THREADS_PER_ROW;
    let source = min(row, params.rows * params.heads - 1u) * VEC4S + tid % THREADS_PER_ROW * VEC4S_PER_THREAD;
    var heads: array<vec4<f32>, VEC4S_PER_THREAD>;
    var values: array<vec4<f32>, VEC4S_PER_THREAD>;
    var gates: array<vec4<f32>, VEC4S_PER_THREAD>;
    var sum = 0.0;
    var strength = 0.0;
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
        let i = source + j;
        let c = i % (params.m / 4u);
        heads[j] = x[i];
        values[j] = v[i] + (v_first_vec4(i) - v[i]) * gate_vec4(i);
        gates[j] = g[i];
        sum += dot(heads[j], vec4(1.0));
        strength += dot(r[i] * r_k[c], k[i] * (1.0 + (a[i] - 1.0) * k_a[c]));
    }
    let mean = row_reduce(tid, 0u, sum) / f32(N);
    strength = row_reduce(tid, 1u, strength);
    var deviations = 0.0;
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
        heads[j] -= mean;
        deviations += dot(heads[j], heads[j]);
    }
    let spread = inverseSqrt(row_reduce(tid, 0u, deviations) / f32(N) + params.eps);
    if row < params.rows * params.heads {
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
            let c = (source + j) % (params.m / 4u);
            heads[j] = (heads[j] * spread * scale[c] + bias[c] + strength * values[j]) * gates[j];
        }
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
            if !Y_PACKED {
                y[source + j] = heads[j];
            } else if j % 2u == 1u {
                y[(source + j) / 2u] = bitcast<vec4<f32>>(packed_half8(heads[j - j % 2u], heads[j]));
            }
        }
    }
}
