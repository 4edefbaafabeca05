// idea: one workgroup per row; two passes, the second over the centred row, as the reference.
// grid: rows
// default: 10
#import lib/op
#import lib/reduce/subgroup     // tune: subgroup workgroup

const WG: u32 = 256u;   // tune: 32 64 128 256 512 1024

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [rows, m]
@group(0) @binding(2) var<storage, read> scale: array<f32>;      // [m]
@group(0) @binding(3) var<storage, read> bias: array<f32>;       // [m]
@group(0) @binding(4) var<storage, read_write> y: array<f32>;    // [rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let row = workgroup_index(workgroup, grid);
    if row >= params.rows {
        return;
    }
    let start = row * params.k;
    var sum = 0.0;
    for (var c = thread.tid; c < params.k; c += WG) {
        sum += x[start + c];
    }
    let mean = reduce_sum(thread, sum) / f32(params.k);
    var squares = 0.0;
    for (var c = thread.tid; c < params.k; c += WG) {
        let d = x[start + c] - mean;
        squares += d * d;
    }
    let rstd = inverseSqrt(reduce_sum(thread, squares) / f32(params.k) + params.eps);
    for (var c = thread.tid; c < params.k; c += WG) {
        y[start + c] = (x[start + c] - mean) * rstd * scale[c] + bias[c];
    }
}
