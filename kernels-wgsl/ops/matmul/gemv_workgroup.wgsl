// idea: a whole workgroup reads ROWS rows: for long rows, or so few that subgroups would idle.
// needs: subgroups
// grid: ceil_div(shard_rows, ROWS) * rows
// default: matmul 70, matmul_add 60
#import lib/op
#import lib/x/f32
#import lib/quant/* as w binding 2
#import lib/gemv/dot_rows as w

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const ROWS: u32 = 4u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 4
const THREADS_PER_ROW: u32 = WG;
const TOKENS: u32 = 1u;
const LOADS: u32 = K / w_values_per_load;

const_assert K % 32u == 0u;     // k in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

// Sums of the subgroups, which have at least 4 threads.
var<workgroup> partials: array<f32, ROWS * WG / 4u>;

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) num_subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let row_blocks = (params.shard_rows + ROWS - 1u) / ROWS;
    let row = (index % row_blocks) * ROWS;
    let token = index / row_blocks;
    if token >= params.rows {
        return;
    }
    var sums = w_dot_rows(row, params.shard_rows - 1u, token, token, tid);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let sum = subgroupAdd(sums[i]);
        if lane == 0u {
            partials[i * num_subgroups + subgroup] = sum;
        }
    }
    workgroupBarrier();
    if tid < ROWS && row + tid < params.shard_rows {
        var sum = 0.0;
        for (var i = 0u; i < num_subgroups; i++) {
            sum += partials[tid * num_subgroups + i];
        }
        store(token * params.m + params.first + row + tid, sum);
    }
}
