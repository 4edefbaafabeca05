// idea: one thread per element of y.
// grid: ceil_div(rows * m, WG)
// default: 20
#import lib/op

const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;           // [rows, m]
@group(0) @binding(2) var<storage, read> matrices: array<f32>;    // [rows, m, m]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;     // [rows, m]

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
    let n = params.m;
    let first = i / n * n;
    var sum = 0.0;
    for (var row = 0u; row < n; row++) {
        sum += x[first + row] * matrices[(first + row) * n + i % n];
    }
    y[i] = sum;
}
