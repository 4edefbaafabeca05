// One workgroup for a share of the rows and one token, with the columns of x in f32.
#import unit
#import room_f32
#import norm_matmul
#import dealt_rows as w
#import piece/f16 as w binding 8

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const UNITS: u32 = 132u;        // tune: 66 132 264
const LANES: u32 = 16u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 2u;         // tune: 1 2 5
const ROOM: u32 = K / 4u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    norm_matmul(unit_of(workgroup, grid), Place(lane, subgroup, subgroups, subgroup_lane));
}
