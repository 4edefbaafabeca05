// idea: one workgroup per token and head, one thread per channel.
// grid: rows * heads
// default: 10
#import lib/op
#import lib/reduce/workgroup

const N: u32 = 64u;     // op: head_size
const WG: u32 = N;

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> scale: array<f32>;      // [heads, N]
@group(0) @binding(3) var<storage, read> bias: array<f32>;       // [heads, N]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;    // [tokens, heads, N]

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
    y[i] = centred * inverseSqrt(variance + params.eps) * scale[c] + bias[c];
}
