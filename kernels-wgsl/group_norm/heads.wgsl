// One workgroup per token and head, one invocation per channel.
#import params
#import unit
#import reduce_workgroup

const N: u32 = 64u;     // op: head_size
const WG: u32 = N;

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> scale: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let head = unit_of(workgroup, grid);
    if head >= params.rows * params.heads {
        return;
    }
    let i = head * N + lane;
    let c = i % params.m;
    let centred = x[i] - workgroup_sum(lane, x[i]) / f32(N);
    let variance = workgroup_sum(lane, centred * centred) / f32(N);
    y[i] = centred * inverseSqrt(variance + params.eps) * scale[c] + bias[c];
}
