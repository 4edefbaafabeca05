// idea: one thread per element of x writes that element of every plane.
// grid: ceil_div(rows * m, WG)
// default: 10
#import lib/op

const PLANES: u32 = 6u; // op: planes
const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [rows, m]
@group(0) @binding(2) var<storage, read> dx: array<f32>;         // [rows, m]
@group(0) @binding(3) var<storage, read> mix: array<f32>;        // [planes, m]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;    // [planes, rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.rows * params.m {
        return;
    }
    let c = i % params.m;
    for (var plane = 0u; plane < PLANES; plane++) {
        y[plane * params.rows * params.m + i] = x[i] + dx[i] * mix[plane * params.m + c];
    }
}
