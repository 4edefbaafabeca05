// idea: large tiles of the four adapters on the matrix units; the next K-tile is in flight while this one is multiplied.
// needs: subgroups f16
// grid: 4 * ceil_div(m, TILE_N) * ceil_div(rows, TILE_M)
// default: 8
#import lib/lora_up
#import lib/quant/* as w2 binding 2
#import lib/quant/* as a2 binding 3
#import lib/quant/* as v2 binding 4
#import lib/quant/* as g2 binding 5
#import lib/coop/gemm
#import lib/coop/whole_k
#import lib/coop/weights as w2
#import lib/coop/weights as a2
#import lib/coop/weights as v2
#import lib/coop/weights as g2
#import lib/coop/fragment/m16    // tune: m16 m8
#import lib/coop/halves/one         // tune: one two

const K: u32 = 256u;                // op: k
const M: u32 = 256u;                // op: m
const TILE_M: u32 = 64u;            // tune: 16 32 64 128
const TILE_N: u32 = 64u;            // tune: 32 64 128
const K_TILE: u32 = 32u;            // tune: 32 64
const SUBGROUPS_M: u32 = 2u;        // tune: 1 2
const SUBGROUPS_N: u32 = 2u;        // tune: 1 2 4
const SUBGROUPS_K: u32 = 1u;
const STAGES: u32 = 1u;             // tune: 1 2
const UNROLL: u32 = 1u;
const RASTER: u32 = 8u;
const RANK_DECAY: u32 = 32u;        // op: rank_decay
const RANK_ICLR: u32 = 32u;         // op: rank_iclr
const RANK_VALUE: u32 = 32u;        // op: rank_value
const RANK_GATE: u32 = 32u;         // op: rank_gate
const PACKED_LOADS: u32 = max(max(w2_packed_loads, a2_packed_loads), max(v2_packed_loads, g2_packed_loads));
const LOADS_ONCE: bool = false;

const_assert w2_is_float && a2_is_float && v2_is_float && g2_is_float;                  // adapters are read as floats
const_assert RANK_DECAY % K_TILE == 0u && RANK_ICLR % K_TILE == 0u;                     // K-tiles are whole
const_assert RANK_VALUE % K_TILE == 0u && RANK_GATE % K_TILE == 0u;                     // K-tiles are whole
const_assert LIMBS == 1u || w2_format == 2u && a2_format == 2u && g2_format == 2u;     // f32 sums need weights that f16 holds
const_assert LIMBS == 1u || v2_format == 2u || v2_format == 0u;                        // f32 sums need weights that f16 holds

fn load_weights(tile: Tile, k_tile: u32, tid: u32) -> PackedTile {
    let rank = params.ranks[tile.matrix];
    switch tile.matrix {
        case 0u: { return w2_load_adapter_tile(rank, tile.row, tile.last_row, k_tile, tid); }
        case 1u: { return a2_load_adapter_tile(rank, tile.row, tile.last_row, k_tile, tid); }
        case 2u: { return v2_load_adapter_tile(rank, tile.row, tile.last_row, k_tile, tid); }
        default: { return g2_load_adapter_tile(rank, tile.row, tile.last_row, k_tile, tid); }
    }
}

// Adapters of one format share the code that unpacks them: the first one's. Drivers take long to compile it.
const STAGE_A2: u32 = select(1u, 0u, a2_format == w2_format);
const STAGE_V2: u32 = select(2u, 0u, v2_format == w2_format);
const STAGE_G2: u32 = select(3u, 0u, g2_format == w2_format);

fn stage_weights(tile: Tile, packed: PackedTile, buffer: u32, k_tile: u32, tid: u32) {
    var stage_as = array(0u, STAGE_A2, STAGE_V2, STAGE_G2);
    switch stage_as[tile.matrix] {
        case 0u: { w2_stage_k_tile(packed, buffer, k_tile, tid); }
        case 1u: { if STAGE_A2 == 1u { a2_stage_k_tile(packed, buffer, k_tile, tid); } }
        case 2u: { if STAGE_V2 == 2u { v2_stage_k_tile(packed, buffer, k_tile, tid); } }
        default: { if STAGE_G2 == 3u { g2_stage_k_tile(packed, buffer, k_tile, tid); } }
    }
}

fn load_residuals(tile: Tile, place: Place) -> vec2<f32> {
    return vec2<f32>();
}

fn store_sums_of_tile(tile: Tile, place: Place, sums: vec2<f32>) {
    store_sum(tile.matrix, place.token, place.row, sums.x);
    store_sum(tile.matrix, place.token, place.row + 1u, sums.y);
}

fn stores_plainly(matrix: u32) -> bool {
    return matrix == 3u;
}

fn first_of_y(matrix: u32, row: u32) -> u32 {
    return matrix * params.rows * M + row;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    // The gate, which has the longest rows as a rule, comes first.
    let tiles = (M + TILE_N - 1u) / TILE_N;
    let place = raster(workgroup_index(workgroup, grid), 4u * tiles, (params.rows + TILE_M - 1u) / TILE_M);
    let adapter = 3u - place.x / tiles;
    let rank = params.ranks[adapter];
    if rank > 0u {
        let token = place.y * TILE_M;
        let x = token * (K / 8u) + column_of(adapter) / 8u;
        let tile = Tile(adapter, place.x % tiles * TILE_N, M - 1u, token, x, 0u, 0u, 0u, 0u);
        gemm_tile(part_of_tile(tile, rank / K_TILE), subgroup, tid);
    }
}
