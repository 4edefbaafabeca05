// idea: one workgroup per token and head, one thread per channel; no subgroups.
// grid: rows * heads
// default: 20
#import lib/op
#import lib/reduce/workgroup
#import lib/vector as v_first binding 5
#import lib/vector as gate binding 6

const N: u32 = 64u;     // op: head_size
const WG: u32 = N;

@group(0) @binding(1) var<storage, read> x: array<f32>;           // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> r: array<f32>;           // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> k: array<f32>;           // [tokens, heads, N]
@group(0) @binding(4) var<storage, read> v: array<f32>;           // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<f32>;           // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> g: array<f32>;           // [tokens, heads, N]
@group(0) @binding(9) var<storage, read> k_a: array<f32>;         // [heads, N]
@group(0) @binding(10) var<storage, read> r_k: array<f32>;        // [heads, N]
@group(0) @binding(11) var<storage, read> scale: array<f32>;      // [heads, N]
@group(0) @binding(12) var<storage, read> bias: array<f32>;       // [heads, N]
@group(0) @binding(13) var<storage, read_write> y: array<f32>;    // [tokens, heads, N]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let head = workgroup_index(workgroup, grid);
    if head >= params.rows * params.heads {
        return;
    }
    let i = head * N + thread.tid;
    let c = i % params.m;
    let centred = x[i] - reduce_sum(thread, x[i]) / f32(N);
    let variance = reduce_sum(thread, centred * centred) / f32(N);
    let key = k[i] * (1.0 + (a[i] - 1.0) * k_a[c]);
    let strength = reduce_sum(thread, r[i] * key * r_k[c]);
    let value = v[i] + (v_first_value(i) - v[i]) * gate_value(i);
    y[i] = (centred * inverseSqrt(variance + params.eps) * scale[c] + bias[c] + strength * value) * g[i];
}
