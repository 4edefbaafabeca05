// Every product of the six lerped planes in tiles of lib/coop/gemm: w_r, w_k and w_v, then the first halves of the adapters. What
// no adapter fills is cleared by all.
// requires: const K_TILE, LIMBS, SPLIT_K, TILE_M, TILE_N, fn part_of_tile
#import lib/project
#import lib/coop/gemm
#import lib/coop/weights as w_r
#import lib/coop/weights as w_k
#import lib/coop/weights as w_v
#import lib/coop/weights as w1
#import lib/coop/weights as a1
#import lib/coop/weights as v1
#import lib/coop/weights as g1

const K: u32 = 256u;            // op: k
const MATRIX_LOADS: u32 = max(max(w_r_packed_loads, w_k_packed_loads), w_v_packed_loads);
const ADAPTER_LOADS: u32 = max(max(w1_packed_loads, a1_packed_loads), max(v1_packed_loads, g1_packed_loads));
const PACKED_LOADS: u32 = max(MATRIX_LOADS, ADAPTER_LOADS);
const TILES_DECAY_ICLR: u32 = (RANK_DECAY + TILE_N - 1u) / TILE_N + (RANK_ICLR + TILE_N - 1u) / TILE_N;
const TILES_VALUE_GATE: u32 = (RANK_VALUE + TILE_N - 1u) / TILE_N + (RANK_GATE + TILE_N - 1u) / TILE_N;
const TILES_N: u32 = 3u * ((M + TILE_N - 1u) / TILE_N) + TILES_DECAY_ICLR + TILES_VALUE_GATE;

// Drivers take long to compile the seven ways to load; many tokens take longer where there is only one place for them.
const LOADS_ONCE: bool = TILE_M <= 64u;

const_assert K % K_TILE == 0u;      // K-tiles are whole
const_assert LIMBS == 1u || w_r_format == 2u && w_k_format == 2u && w_v_format == 2u;     // f32 sums need weights that f16 holds
const_assert LIMBS == 1u || w1_format == 2u && a1_format == 2u && g1_format == 2u;         // f32 sums need weights that f16 holds
const_assert LIMBS == 1u || v1_format == 2u || v1_format == 0u;                            // f32 sums need weights that f16 holds

// Where w_r, w_k and w_v are F16, adapters of other floats are rounded as they are loaded: a second way to stage, which few
// tiles take, would slow all.
const ALL_F16: bool = w_r_format == 2u && w_k_format == 2u && w_v_format == 2u;
const W1_AS_F16: bool = ALL_F16 && w1_is_float && w1_format != 2u;
const A1_AS_F16: bool = ALL_F16 && a1_is_float && a1_format != 2u;
const V1_AS_F16: bool = ALL_F16 && v1_is_float && v1_format != 2u;
const G1_AS_F16: bool = ALL_F16 && g1_is_float && g1_format != 2u;

fn load_weights(tile: Tile, k_tile: u32, tid: u32) -> PackedTile {
    switch tile.matrix {
        case 0u: { return w_r_load_k_tile(tile.row, tile.last_row, k_tile, tid); }
        case 1u: { return w_k_load_k_tile(tile.row, tile.last_row, k_tile, tid); }
        case 2u: { return w_v_load_k_tile(tile.row, tile.last_row, k_tile, tid); }
        case 3u: {
            if W1_AS_F16 {
                return w1_load_rounded_k_tile(tile.row, tile.last_row, k_tile, tid);
            }
            return w1_load_k_tile(tile.row, tile.last_row, k_tile, tid);
        }
        case 4u: {
            if A1_AS_F16 {
                return a1_load_rounded_k_tile(tile.row, tile.last_row, k_tile, tid);
            }
            return a1_load_k_tile(tile.row, tile.last_row, k_tile, tid);
        }
        case 5u: {
            if V1_AS_F16 {
                return v1_load_rounded_k_tile(tile.row, tile.last_row, k_tile, tid);
            }
            return v1_load_k_tile(tile.row, tile.last_row, k_tile, tid);
        }
        default: {
            if G1_AS_F16 {
                return g1_load_rounded_k_tile(tile.row, tile.last_row, k_tile, tid);
            }
            return g1_load_k_tile(tile.row, tile.last_row, k_tile, tid);
        }
    }
}

// Matrices of one format share the code that unpacks them: the first one's. Drivers take long to compile it.
const STAGE_W_K: u32 = select(1u, 0u, w_k_format == w_r_format);
const STAGE_W_V: u32 = select(select(2u, 1u, w_v_format == w_k_format), 0u, w_v_format == w_r_format);
const STAGE_W1: u32 = select(3u, 0u, w1_format == w_r_format || W1_AS_F16);
const STAGE_A1: u32 = select(select(4u, STAGE_W1, a1_format == w1_format), 0u, a1_format == w_r_format || A1_AS_F16);
const STAGE_V1: u32 = select(select(5u, STAGE_W1, v1_format == w1_format), 0u, v1_format == w_r_format || V1_AS_F16);
const STAGE_G1: u32 = select(select(6u, STAGE_W1, g1_format == w1_format), 0u, g1_format == w_r_format || G1_AS_F16);

fn stage_weights(tile: Tile, packed: PackedTile, buffer: u32, k_tile: u32, tid: u32) {
    var stage_as = array(0u, STAGE_W_K, STAGE_W_V, STAGE_W1, STAGE_A1, STAGE_V1, STAGE_G1);
    switch stage_as[tile.matrix] {
        case 0u: { w_r_stage_k_tile(packed, buffer, k_tile, tid); }
        case 1u: { if STAGE_W_K == 1u { w_k_stage_k_tile(packed, buffer, k_tile, tid); } }
        case 2u: { if STAGE_W_V == 2u { w_v_stage_k_tile(packed, buffer, k_tile, tid); } }
        case 3u: { if STAGE_W1 == 3u { w1_stage_k_tile(packed, buffer, k_tile, tid); } }
        case 4u: { if STAGE_A1 == 4u { a1_stage_k_tile(packed, buffer, k_tile, tid); } }
        case 5u: { if STAGE_V1 == 5u { v1_stage_k_tile(packed, buffer, k_tile, tid); } }
        default: { if STAGE_G1 == 6u { g1_stage_k_tile(packed, buffer, k_tile, tid); } }
    }
}

fn load_residuals(tile: Tile, place: Place) -> vec2<f32> {
    return vec2<f32>();
}

fn store_sums_of_tile(tile: Tile, place: Place, sums: vec2<f32>) {
    if tile.matrix < 3u {
        let at = (tile.matrix * params.rows + place.token) * M + place.row;
        y[at] = sums.x;
        y[at + 1u] = sums.y;
        return;
    }
    store_hidden(tile.matrix, place.row, place.token, sums.x);
    if place.row < tile.last_row {
        store_hidden(tile.matrix, place.row + 1u, place.token, sums.y);
    }
}

fn stores_plainly(matrix: u32) -> bool {
    return matrix < 3u;
}

fn first_of_y(matrix: u32, row: u32) -> u32 {
    return matrix * params.rows * M + row;
}

// Clears a tile's share of what lies behind the adapters' hidden values in the fourth plane.
fn clear_share(number: u32, token: u32, tid: u32) {
    let ranks = params.ranks;
    let first = ranks.x + ranks.y + ranks.z + ranks.w;
    let rest = M - first;
    let tokens = min(TILE_M, params.rows - token);
    for (var i = number * WG + tid; i < tokens * rest; i += TILES_N * WG) {
        y[(3u * params.rows + token + i / rest) * M + first + i % rest] = 0.0;
    }
}

// No thread returns early from a tile: matrix units need whole subgroups.
fn project_tile(index: u32, subgroup: u32, tid: u32) {
    let place = raster(index / SPLIT_K, TILES_N, (params.rows + TILE_M - 1u) / TILE_M);
    let token = place.y * TILE_M;
    var matrix = 0u;
    var number = place.x;
    for (var i = 0u; i < REST; i++) {
        let tiles = (rows_of(i) + TILE_N - 1u) / TILE_N;
        if matrix == i && number >= tiles {
            number -= tiles;
            matrix += 1u;
        }
    }
    if index % SPLIT_K == 0u {
        clear_share(place.x, token, tid);
    }
    let x = (plane_of(matrix) * params.rows + token) * (K / 8u);
    let row = number * TILE_N;
    let tile = Tile(matrix, row, rows_of(matrix) - 1u, token, x, 0u, 0u, index / SPLIT_K, index % SPLIT_K);
    gemm_tile(part_of_tile(tile, K / K_TILE), subgroup, tid);
}
