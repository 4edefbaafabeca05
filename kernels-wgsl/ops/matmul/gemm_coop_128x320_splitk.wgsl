// idea: tiles of 128 tokens and 320 rows on the matrix units, several workgroups to a tile: for prompts and few rows.
// needs: subgroups f16
// grid: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M)
// partials: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) * TILE_M * TILE_N
// prune: up_to_rows > 256 && up_to_rows <= 1024     fewer tokens leave multiprocessors idle
// prune: 4u * SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(up_to_rows, TILE_M) >= 3u * SM * ceil_div(SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(up_to_rows, TILE_M), SM)     multiprocessors idle in the last wave
// prune: TILE_M * TILE_N * HALVES / WG <= 160u      register pressure
// default: 7
#import lib/coop/matmul
#import lib/coop/splitk
#import lib/coop/m16
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 128u;
const TILE_N: u32 = 320u;
const K_TILE: u32 = 32u;            // tune: 32
const SUBGROUPS_M: u32 = 2u;        // tune: 1 2 4
const SUBGROUPS_N: u32 = 4u;        // tune: 2 4
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;             // tune: 1 2
const RASTER: u32 = 8u;
const SPLIT_K: u32 = 4u;            // tune: 4 5 2 8
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
