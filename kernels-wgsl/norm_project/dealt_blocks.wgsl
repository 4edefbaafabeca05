// As dealt.wgsl for w_r, w_k and w_v of one K-quant: they meet x rounded to fifteen bits, as integers, half a block at a time.
// The adapters multiply in f32.
#import unit
#import room_blocks
#import norm_project
#import norm_project_blocks

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const UNITS: u32 = 132u;        // tune: 132 264
const LANES: u32 = 8u;          // tune: 4 8 16 32
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 1u;         // tune: 1 2
const NEIGHBOURS: u32 = 8u;     // tune: 8 32

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    norm_project(unit_of(workgroup, grid), Place(lane, subgroup, subgroups, subgroup_lane));
}
