// idea: one workgroup per segment and head, token after token; THREADS_PER_ROW threads keep a row of the state in registers.
// grid: segments * heads
// default: 10
#import lib/row_reduce/subgroup     // tune: subgroup workgroup
#import phases/time_mix_core

const THREADS_PER_ROW: u32 = 4u;        // tune: 1 2 4 8 16

const_assert N % (4u * THREADS_PER_ROW) == 0u;      // a thread has at least four columns of the state
const_assert WG <= 1024u;                           // a workgroup has a thread for each part of the state

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    time_mix_core(workgroup_index(workgroup, grid), tid);
}
