// idea: THREADS_PER_ROW lanes share ROWS rows of one matrix, loaded 16 bytes at a time, UNROLL loads in flight.
// needs: subgroups
// grid: (3 * ceil_div(m, BLOCK_ROWS) + ADAPTER_BLOCKS) * rows
// default: 30
#import lib/x/f32
#import lib/gemv/project

const K: u32 = 256u;            // op: k
const WG: u32 = 64u;            // tune: 64 128 256
const THREADS_PER_ROW: u32 = 32u;   // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 4u;         // tune: 1 2 4
const TOKENS: u32 = 1u;
const ROUNDED: bool = false;
const BLOCK_ROWS: u32 = WG / THREADS_PER_ROW * ROWS;
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let block = row_block_of(workgroup_index(workgroup, grid));
    if block.matrix == REST {
        clear_rest(block, tid);
        return;
    }
    project_block(block, tid);
}
