// As dealt.wgsl with x rounded to int8.
#import unit
#import columns_int8
#import dealt

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 128 256 512 640
const UNITS: u32 = 132u;        // tune: 66 132 264 528
const LANES: u32 = 32u;         // tune: 8 16 32
const SPLIT: u32 = 1u;          // tune: 1 2 4
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 5

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    dealt(unit_of(workgroup, grid), lane);
}
