// idea: one workgroup per ROWS rows of one matrix and TOKENS tokens; threads dequantise 32 weights at a time.
// grid: (3 * ceil_div(m, BLOCK_ROWS) + ADAPTER_BLOCKS) * ceil_div(rows, TOKENS)
// default: 40
#import lib/reduce/subgroup     // tune: subgroup workgroup
#import lib/gemv/project
#import lib/gemv/dot_rows32 as w_r
#import lib/gemv/dot_rows32 as w_k
#import lib/gemv/dot_rows32 as w_v
#import lib/gemv/dot_rows32 as w1
#import lib/gemv/dot_rows32 as a1
#import lib/gemv/dot_rows32 as v1
#import lib/gemv/dot_rows32 as g1

const WG: u32 = 64u;            // tune: 32 64 128
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4
const K: u32 = 256u;            // op: k
const BLOCK_ROWS: u32 = ROWS;

const_assert K % 32u == 0u;     // k in groups of 32

// This thread's share of a block's sums.
fn dot_rows(block: RowBlock, tid: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let row = block.row;
    let last = rows_of(block.matrix) - 1u;
    let x_row = plane + block.token;
    let x_last = plane + params.rows - 1u;
    switch block.matrix {
        case 0u: { return w_r_dot_rows32(row, last, x_row, x_last, tid); }
        case 1u: { return w_k_dot_rows32(row, last, x_row, x_last, tid); }
        case 2u: { return w_v_dot_rows32(row, last, x_row, x_last, tid); }
        case 3u: { return w1_dot_rows32(row, last, x_row, x_last, tid); }
        case 4u: { return a1_dot_rows32(row, last, x_row, x_last, tid); }
        case 5u: { return v1_dot_rows32(row, last, x_row, x_last, tid); }
        default: { return g1_dot_rows32(row, last, x_row, x_last, tid); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let block = row_block_of(workgroup_index(workgroup, grid));
    if block.matrix == REST {
        clear_rest(block, thread.tid);
        return;
    }
    var sums = dot_rows(block, thread.tid);
    for (var i = 0u; i < ROWS; i++) {
        for (var t = 0u; t < TOKENS; t++) {
            let sum = reduce_sum(thread, sums[i * TOKENS + t]);
            if thread.tid == 0u {
                store_sum(block, i, t, sum);
            }
        }
    }
}
