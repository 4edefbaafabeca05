// idea: one workgroup per segment and part of a head; what keys and values become is made as blocks of tokens are staged.
// needs: subgroups
// grid: segments * heads * (N / ROWS_PER_WORKGROUP)
// default: 10
#import phases/wkv_staged

const THREADS_PER_ROW: u32 = 8u;        // tune: 8 16 4
const ROWS_PER_WORKGROUP: u32 = 32u;    // tune: 32 64 16 8
const ROWS_PER_THREAD: u32 = 2u;        // tune: 2 4 1
const TOKENS: u32 = 8u;                 // tune: 8 16 4
const SM: u32 = 16u;                    // device: multiprocessors

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    wkv_staged(workgroup_index(workgroup, grid), tid);
}
