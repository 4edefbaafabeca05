// A product in tiles of lib/coop/gemm, as every variant of its has it.
#import lib/op
#import lib/quant/* as w binding 2
#import lib/coop/gemm
#import lib/coop/weights as w

const K: u32 = 256u;            // op: k
const SHARD_ROWS: u32 = 256u;   // op: shard_rows
const PACKED_LOADS: u32 = w_packed_loads;

const_assert K % K_TILE == 0u;                  // K-tiles are whole
const_assert HALVES == 1u || w_format == 2u;    // f32 sums need weights that f16 holds

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

fn load_weights(tile: Tile, k_tile: u32, tid: u32) -> PackedTile {
    return w_load_k_tile(tile.row, tile.last_row, k_tile, tid);
}

fn stage_weights(tile: Tile, packed: PackedTile, buffer: u32, k_tile: u32, tid: u32) {
    w_stage_k_tile(packed, buffer, k_tile, tid);
}

fn store_sum_of_tile(matrix: u32, row: u32, token: u32, sum: f32) {
    store(token * params.m + params.first + row, sum);
}

fn stores_plainly(matrix: u32) -> bool {
    return ACTIVATION == NONE;
}

fn first_of_y(matrix: u32, row: u32) -> u32 {
    return params.first + row;
}

// No thread returns early: matrix units need whole subgroups.
fn matmul_tile(index: u32, subgroup: u32, tid: u32) {
    let place = raster(index / SPLIT_K, (params.shard_rows + TILE_N - 1u) / TILE_N, (params.rows + TILE_M - 1u) / TILE_M);
    let token = place.y * TILE_M;
    let last_row = params.shard_rows - 1u;
    let tile = Tile(0u, place.x * TILE_N, last_row, token, token * (K / 4u), 0u, 0u, index / SPLIT_K, index % SPLIT_K);
    gemm_tile(part_of_tile(tile, K / K_TILE), subgroup, tid);
}
