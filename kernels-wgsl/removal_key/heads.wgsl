// One workgroup per token and head, one invocation per channel.
#import params
#import unit
#import reduce_workgroup

const N: u32 = 64u;     // op: head_size
const WG: u32 = N;

@group(0) @binding(1) var<storage, read> k: array<f32>;
@group(0) @binding(2) var<storage, read> k_k: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

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
    let key = k[i] * k_k[i % params.m];
    let norm = sqrt(workgroup_sum(lane, key * key));
    y[i] = key / max(norm, 1e-12);
}
