// idea: one thread per element; a token outside this row shard of the table is another dispatch's.
// grid: ceil_div(rows * m, WG)
// default: 10
#import lib/op
#import lib/quant/* as table binding 2

const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> tokens: array<u32>;     // [rows]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

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
    let row = tokens[i / params.m];
    if row >= params.first && row - params.first < params.shard_rows {
        y[i] = table_value((row - params.first) * params.m + i % params.m);
    }
}
