// idea: one workgroup per token; threads of a column of its matrix take rows in turn, then their sums are added.
// grid: rows
// default: 10
#import lib/op

const M: u32 = 32u;         // op: m
const SPLIT_K: u32 = 8u;    // tune: 2 4 8
const WG: u32 = M * SPLIT_K;

const_assert WG <= 256u;    // a workgroup has a thread for each column and part of K

@group(0) @binding(1) var<storage, read> x: array<f32>;           // [rows, m]
@group(0) @binding(2) var<storage, read> matrices: array<f32>;    // [rows, m, m]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;     // [rows, m]

var<workgroup> sums: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let token = workgroup_index(workgroup, grid);
    if token >= params.rows {
        return;
    }
    let first = token * M;
    let column = tid % M;
    var sum = 0.0;
    for (var row = tid / M; row < M; row += SPLIT_K) {
        sum += x[first + row] * matrices[(first + row) * M + column];
    }
    sums[tid] = sum;
    workgroupBarrier();
    if tid < M {
        var total = sums[tid];
        for (var part = 1u; part < SPLIT_K; part++) {
            total += sums[part * M + tid];
        }
        y[first + tid] = total;
    }
}
