// idea: one thread per element.
// grid: ceil_div(rows * m, WG)
// default: 10
#import lib/op

const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> v: array<f32>;          // [rows, m]
@group(0) @binding(2) var<storage, read> v_first: array<f32>;    // [rows, m]
@group(0) @binding(3) var<storage, read> gate: array<f32>;       // [rows, m]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;    // [rows, m]

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
    y[i] = v[i] + (v_first[i] - v[i]) * gate[i];
}
