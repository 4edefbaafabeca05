// idea: w_r, w_k, w_v and the adapters in tiles on the matrix units, several workgroups to a tile: for few tiles.
// needs: subgroups f16
// grid: SPLIT_K * TILES_N * ceil_div(rows, TILE_M)
// partials: SPLIT_K * TILES_N * ceil_div(rows, TILE_M) * TILE_M * TILE_N
// default: 8
#import lib/coop/project
#import lib/coop/splitk
#import lib/coop/fragment/m16    // tune: m16 m8
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 128u;           // tune: 128 64 32 16
const TILE_N: u32 = 128u;           // tune: 128 64
const K_TILE: u32 = 64u;            // tune: 32 64 128
const SUBGROUPS_M: u32 = 2u;        // tune: 2 1
const SUBGROUPS_N: u32 = 8u;        // tune: 8 4
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;
const UNROLL: u32 = 1u;
const RASTER: u32 = 8u;
const SPLIT_K: u32 = 10u;           // tune: 10 8 5 4 2
const SM: u32 = 16u;                // device: multiprocessors

const_assert SPLIT_K * K_TILE <= K;                 // every workgroup has a K-tile
const_assert TILES_N * ceil_div(rows, TILE_M) <= MAX_TILES;      // counters of tiles

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    project_tile(workgroup_index(workgroup, grid), subgroup, tid);
}
