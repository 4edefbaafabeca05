// idea: w_r, w_k, w_v and the adapters in tiles of 128 tokens and 128 rows on the matrix units, for prompts.
// needs: subgroups f16
// grid: TILES_N * ceil_div(rows, TILE_M)
// default: 10
#import lib/coop/project
#import lib/coop/whole_k
#import lib/coop/fragment/m16
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 128u;           // tune: 64 128 256
const TILE_N: u32 = 128u;           // tune: 64 128 160
const K_TILE: u32 = 64u;            // tune: 32 64
const SUBGROUPS_M: u32 = 2u;        // tune: 2 4
const SUBGROUPS_N: u32 = 4u;        // tune: 1 2 4
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;             // tune: 1 2
const UNROLL: u32 = 4u;             // tune: 4 2 1
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
