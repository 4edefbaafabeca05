// One workgroup per ROWS rows of one matrix and TOKENS tokens; sums meet within subgroups first.
#import unit
#import reduce_subgroup
#import project_rows

const WG: u32 = 64u;            // tune: 32 64 128
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    let block = block_of(unit_of(workgroup, grid));
    if block.matrix == REST {
        clear(block, lane);
        return;
    }
    var sums = shares(block, lane);
    for (var i = 0u; i < ROWS; i++) {
        for (var t = 0u; t < TOKENS; t++) {
            let sum = workgroup_sum(subgroup, subgroups, subgroup_lane, sums[i * TOKENS + t]);
            if lane == 0u {
                keep(block, i, t, sum);
            }
        }
    }
}
