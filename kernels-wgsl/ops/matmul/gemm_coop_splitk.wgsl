// idea: split-K: tiles on the matrix units, several workgroups to a tile: for few tiles.
// needs: subgroups f16
// grid: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M)
// partials: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) * TILE_M * TILE_N
// prune: up_to_rows >= 8 && (up_to_rows <= 256 || up_to_rows <= 4096 && shard_rows <= 512 && K >= 1024u)     enough tiles without
// prune: up_to_rows <= 256 || TILE_M == 64u && TILE_N == 64u      so few rows make few tiles
// prune: 2u * TILE_M <= up_to_rows || TILE_M == 16u     most of a tile would be empty
// prune: 16u * SUBGROUPS_N <= TILE_M || SUBGROUPS_N == 4u      a subgroup has too few rows
// prune: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(up_to_rows, TILE_M) <= 4u * SM || SPLIT_K == 2u || up_to_rows <= 16u || up_to_rows == 64u && w_format > 3u     more workgroups than multiprocessors hold
// prune: SPLIT_K * ceil_div(shard_rows, TILE_N) * ceil_div(up_to_rows, TILE_M) * TILE_M <= 250u * SM || SPLIT_K == 2u || up_to_rows == 64u && w_format > 3u     too much to hand over
// prune: up_to_rows > 16 || TILE_N == 64u && K_TILE == select(64u, 128u, shard_rows > 16384 || shard_rows <= 4096 && w_format <= 3u)      so few rows take longer to load than to multiply
// prune: up_to_rows > 16 || SPLIT_K <= select(select(5u, 10u, shard_rows <= 4096 && w_format > 3u), 2u, shard_rows > 16384)      so few rows take longer to hand over than to multiply
// prune: up_to_rows != 64u || w_format <= 3u || TILE_N == 64u && SUBGROUPS_M == 1u && SPLIT_K == 8u      blocks of so few tokens take longer to unpack than to multiply
// default: 8
#import lib/coop/matmul
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
