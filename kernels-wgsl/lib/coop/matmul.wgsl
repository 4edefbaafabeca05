// A product in tiles of lib/coop/gemm, as every variant of its has it.
// requires: const K_TILE, LIMBS, SPLIT_K, TILE_M, TILE_N, fn part_of_tile
#import lib/op
#import lib/quant/* as w binding 2
#import lib/coop/gemm
#import lib/packed
#import lib/coop/weights as w

const K: u32 = 256u;            // op: k
const SHARD_ROWS: u32 = 256u;   // op: shard_rows
const M: u32 = 256u;            // op: m
const Y_PACKED: bool = false;   // op: y_packed
const PACKED_LOADS: u32 = w_packed_loads;
const LOADS_ONCE: bool = false;

const_assert K % K_TILE == 0u;                  // K-tiles are whole
const_assert LIMBS == 1u || w_format == 2u;    // f32 sums need weights that f16 holds
const_assert !Y_PACKED || SHARD_ROWS == M && M % 2u == 0u && !ADD;     // pairs of rows are of one shard, and written only

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k], perhaps packed (X_PACKED)
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m], perhaps packed (Y_PACKED)

fn load_weights(tile: Tile, k_tile: u32, tid: u32) -> PackedTile {
    return w_load_k_tile(tile.row, tile.last_row, k_tile, tid);
}

fn stage_weights(tile: Tile, packed: PackedTile, buffer: u32, k_tile: u32, tid: u32) {
    w_stage_k_tile(packed, buffer, k_tile, tid);
}

// What the sums are added to; past the tile, of its last rows.
fn load_residuals(tile: Tile, place: Place) -> vec2<f32> {
    if !ADD {
        return vec2<f32>();
    }
    let first = min(place.token, params.rows - 1u) * params.m + params.first;
    // sanitizer: allow dropped-race: sums past the tile's last row or token are not stored
    return vec2(y[first + min(place.row, tile.last_row)], y[first + min(place.row + 1u, tile.last_row)]);
}

fn store_sums_of_tile(tile: Tile, place: Place, sums: vec2<f32>) {
    let at = place.token * params.m + params.first + place.row;
    let pair = vec2(activate(ACTIVATION, sums.x), activate(ACTIVATION, sums.y));
    if Y_PACKED {
        y[at / 2u] = bitcast<f32>(packed_pair(pair));
        return;
    }
    y[at] = pair.x;
    if place.row < tile.last_row {
        y[at + 1u] = pair.y;
    }
}

fn stores_plainly(matrix: u32) -> bool {
    return ACTIVATION == NONE && !Y_PACKED;
}

fn first_of_y(matrix: u32, row: u32) -> u32 {
    return params.first + row;
}

fn tiles() -> u32 {
    return (params.shard_rows + TILE_N - 1u) / TILE_N * ((params.rows + TILE_M - 1u) / TILE_M);
}

// The tile of that number, all of its K.
fn tile_of(number: u32) -> Tile {
    let place = raster(number, (params.shard_rows + TILE_N - 1u) / TILE_N, (params.rows + TILE_M - 1u) / TILE_M);
    let token = place.y * TILE_M;
    return Tile(0u, place.x * TILE_N, params.shard_rows - 1u, token, token * (K / 8u), 0u, K / K_TILE, number, 0u);
}

// No thread returns early: matrix units need whole subgroups.
fn matmul_tile(index: u32, subgroup: u32, tid: u32) {
    var tile = tile_of(index / SPLIT_K);
    tile.k_range = index % SPLIT_K;
    gemm_tile(part_of_tile(tile, K / K_TILE), subgroup, tid);
}
