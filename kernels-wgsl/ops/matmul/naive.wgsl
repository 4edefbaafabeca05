// idea: one thread per element of y: any size, any format. Begin here.
// grid: ceil_div(rows * shard_rows, WG)
// default: 100
#import lib/op
#import lib/quant/* as w binding 2

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.rows * params.shard_rows {
        return;
    }
    let token = i / params.shard_rows;
    let row = i % params.shard_rows;
    var sum = 0.0;
    for (var c = 0u; c < params.k; c++) {
        sum += x[token * params.k + c] * w_value(row * params.k + c);
    }
    let at = token * params.m + params.first + row;
    store(at, sum);
}
