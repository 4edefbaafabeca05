// idea: tiles of up to 64 tokens and 64 rows on the matrix units: for few tokens, with the bits that large tiles have.
// needs: subgroups f16
// grid: TILES_N * ceil_div(rows, TILE_M)
// default: 45
#import lib/coop/project
#import lib/coop/whole_k
#import lib/coop/fragment/m16    // tune: m16 m8
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 32u;            // tune: 32 16 64
const TILE_N: u32 = 64u;            // tune: 64 128
const K_TILE: u32 = 64u;            // tune: 64 128 32
const SUBGROUPS_M: u32 = 1u;        // tune: 1 2
const SUBGROUPS_N: u32 = 4u;        // tune: 4 2
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;             // tune: 1 2
const UNROLL: u32 = 1u;
const RASTER: u32 = 8u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    project_tile(workgroup_index(workgroup, grid), subgroup, tid);
}
