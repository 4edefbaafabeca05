// idea: THREADS_PER_ROW lanes share ROWS rows, loaded 16 bytes at a time, UNROLL loads in flight.
// needs: subgroups
// grid: ceil_div(shard_rows, WG / THREADS_PER_ROW * ROWS) * rows
// default: matmul 60, matmul_add 70
#import lib/op
#import lib/x/f32
#import lib/quant/* as w binding 2
#import lib/gemv/dot_rows as w

const K: u32 = 256u;            // op: k
const WG: u32 = 64u;            // tune: 64 128 256
const THREADS_PER_ROW: u32 = 32u; // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 4
const STAGED: u32 = 0u;         // tune: 0 1
const GROUPS: u32 = WG / THREADS_PER_ROW;
const TOKENS: u32 = 1u;
const LOADS: u32 = K / w_values_per_load;
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> staged: array<vec4<f32>, STAGED * (K / 4u) + 1u>;

fn x_vec4(i: u32) -> vec4<f32> {
    if STAGED == 1u {
        return staged[i];
    }
    return x[i];
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let row_blocks = (params.shard_rows + GROUPS * ROWS - 1u) / (GROUPS * ROWS);
    let token = index / row_blocks;
    if token >= params.rows {
        return;
    }
    if STAGED == 1u {
        for (var i = tid; i < K / 4u; i += WG) {
            staged[i] = x[token * (K / 4u) + i];
        }
        workgroupBarrier();
    }
    let row = ((index % row_blocks) * GROUPS + tid / THREADS_PER_ROW) * ROWS;
    let row_lane = tid % THREADS_PER_ROW;
    let x_row = select(token, 0u, STAGED == 1u);
    var sums = w_dot_rows(row, params.shard_rows - 1u, x_row, x_row, row_lane);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let sum = row_sum(sums[i]);
        if row_lane == 0u && row + i < params.shard_rows {
            store(token * params.m + params.first + row + i, sum);
        }
    }
}
