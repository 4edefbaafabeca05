// One workgroup per segment and head; sums over a row of the state meet within subgroups.
#import unit
#import row_sum_subgroup
#import time_mix_core

const SPLIT: u32 = 4u;  // tune: 1 2 4

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    time_mix_core(unit_of(workgroup, grid), lane);
}
