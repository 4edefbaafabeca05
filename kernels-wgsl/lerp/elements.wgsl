// One invocation per element of x; it writes that element of every plane.
#import params
#import unit

const PLANES: u32 = 6u; // op: planes
const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> dx: array<f32>;
@group(0) @binding(3) var<storage, read> mix: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

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
    let c = i % params.m;
    for (var plane = 0u; plane < PLANES; plane++) {
        y[plane * params.rows * params.m + i] = x[i] + dx[i] * mix[plane * params.m + c];
    }
}
