// idea: tiles of 128 tokens and 160 rows on the matrix units, two workgroups to a tile: for x in two limbs, which fill registers.
// needs: subgroups f16
// grid: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M)
// partials: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) * TILE_M * TILE_N
// default: 12
#import lib/coop/matmul
#import lib/coop/splitk
#import lib/coop/fragment/m16
#import lib/coop/halves/two         // tune: two one

const TILE_M: u32 = 128u;
const TILE_N: u32 = 160u;
const K_TILE: u32 = 32u;
const SUBGROUPS_M: u32 = 4u;
const SUBGROUPS_N: u32 = 2u;
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;
const UNROLL: u32 = 2u;
const RASTER: u32 = 8u;
const SPLIT_K: u32 = 2u;            // tune: 2 4
const SM: u32 = 16u;                // device: multiprocessors

const_assert SPLIT_K * K_TILE <= K;                 // every workgroup has a K-tile
const_assert ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) <= MAX_TILES;      // counters of tiles

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    matmul_tile(workgroup_index(workgroup, grid), subgroup, tid);
}
