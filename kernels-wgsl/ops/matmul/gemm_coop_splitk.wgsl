// idea: tiles on the matrix units, several workgroups to a tile: for few tiles.
// needs: subgroups f16
// grid: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M)
// partials: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) * SUBGROUPS_K * TILE_M * TILE_N
// prune: up_to_rows >= 16      most of a tile would be empty
// prune: TILE_M <= up_to_rows      most of a tile would be empty
// prune: TILE_M * TILE_N * HALVES / WG <= 160u      register pressure
// default: 7
#import lib/coop/matmul
#import lib/coop/splitk
#import lib/coop/fragment/m16       // tune: m16
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 32u;            // tune: 16 32 64 128
const TILE_N: u32 = 128u;           // tune: 64 128
const K_TILE: u32 = 64u;            // tune: 32 64 128
const SUBGROUPS_M: u32 = 1u;        // tune: 1 2
const SUBGROUPS_N: u32 = 4u;        // tune: 2 4 8
const SUBGROUPS_K: u32 = 1u;        // tune: 1 2
const STAGES: u32 = 1u;             // tune: 1 2
const RASTER: u32 = 8u;
const SPLIT_K: u32 = 5u;            // tune: 2 4 5 8 10

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
