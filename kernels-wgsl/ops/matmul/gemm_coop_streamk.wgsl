// idea: stream-K: tiles on the matrix units, their K-tiles shared evenly by as many workgroups as multiprocessors hold: for tiles that fill no wave.
// needs: subgroups f16
// grid: PER_SM * SM
// partials: 2u * PER_SM * SM * TILE_M * TILE_N
// default: 7
#import lib/coop/matmul
#import lib/coop/streamk
#import lib/coop/fragment/m16    // tune: m16 m8
#import lib/coop/halves/one         // tune: one two

const TILE_M: u32 = 128u;           // tune: 128 64
const TILE_N: u32 = 128u;           // tune: 128 64
const K_TILE: u32 = 64u;            // tune: 64 32
const SUBGROUPS_M: u32 = 4u;
const SUBGROUPS_N: u32 = 4u;        // tune: 4 2
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;
const UNROLL: u32 = 1u;
const RASTER: u32 = 8u;
const PER_SM: u32 = 1u;             // tune: 1 2
const SM: u32 = 16u;                // device: multiprocessors
const GRID: u32 = PER_SM * SM;
const K_TILES: u32 = K / K_TILE;
const SPLIT_K: u32 = 1u;            // of no tile the same

const_assert ceil_div(shard_rows, TILE_N) * ceil_div(rows, TILE_M) <= MAX_TILES;      // counters of tiles

// No thread returns early: matrix units need whole subgroups.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let end = first_k_tile_of(index + 1u);
    for (var first = first_k_tile_of(index); first < end; first = (first / K_TILES + 1u) * K_TILES) {
        workgroupBarrier();     // what the tile before has in workgroup memory is read
        gemm_tile(part_of_tile(tile_of(first / K_TILES), index, first, end), subgroup, tid);
    }
}
