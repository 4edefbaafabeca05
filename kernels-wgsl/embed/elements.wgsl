// One invocation per element. A token outside this window of the table is another dispatch's.
#import params
#import unit
#import weight/f16 as table binding 2

const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
    if i >= params.rows * params.m {
        return;
    }
    let row = tokens[i / params.m];
    if row >= params.first && row - params.first < params.window {
        y[i] = table_at((row - params.first) * params.m + i % params.m);
    }
}
