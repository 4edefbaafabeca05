// idea: y = f(x + bias), one thread per four elements.
// grid: ceil_div(rows * m, 4u * WG)
// default: 5
#import lib/op

const WG: u32 = 256u;           // tune: 256 64
const M: u32 = 256u;            // op: m

const_assert M % 4u == 0u;      // rows of vec4s

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // [rows, m]
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;       // [m]
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;    // [rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.rows * (M / 4u) {
        return;
    }
    var sums = x[i] + bias[i % (M / 4u)];
    for (var c = 0u; c < 4u; c++) {     // unroll
        sums[c] = activate(ACTIVATION, sums[c]);
    }
    y[i] = sums;
}
