// needs: subgroups f16
// A tile of a product on the matrix units: TILE_M tokens times TILE_N rows of a matrix. K-tiles of x and of the weights lie in
// workgroup memory as f16, the next ones in registers, in flight while this one is multiplied. The subgroups share the tile in
// SUBGROUPS_M x SUBGROUPS_N parts; SUBGROUPS_K of them take the k-steps of a part by turns, and their sums are added last.
//
// Needs `const K, K_TILE, TILE_M, TILE_N, SUBGROUPS_M, SUBGROUPS_N, SUBGROUPS_K, STAGES, RASTER, PACKED_LOADS`, a fragment size, x in
// halves, `fn x_vec4`, and of the kernel `load_weights` and `stage_weights` of a tile, and `store_sum_of_tile`.
#import lib/op
#import lib/coop/bits

const LANES: u32 = 32u;         // device: min_subgroup
const PARTS_MN: u32 = SUBGROUPS_M * SUBGROUPS_N;
const SUBGROUPS: u32 = PARTS_MN * SUBGROUPS_K;
const WG: u32 = SUBGROUPS * LANES;
// A tile's row is padded by 16 bytes, so that adjacent ones fall into different banks. In units of 16 bytes: eight values.
const HALF8S: u32 = K_TILE / 8u;
const LD: u32 = HALF8S + 1u;
const TILE_X: u32 = TILE_M * LD;
const TILE_W: u32 = TILE_N * LD;
// Fragments of a subgroup, and its k-steps in a K-tile.
const FRAGMENTS_M: u32 = TILE_M / SUBGROUPS_M / FRAGMENT;
const FRAGMENTS_N: u32 = TILE_N / SUBGROUPS_N / FRAGMENT;
const FRAGMENTS: u32 = FRAGMENTS_M * FRAGMENTS_N;
const K_STEPS: u32 = K_TILE / FRAGMENT / SUBGROUPS_K;
const X_PARTS: u32 = TILE_M * HALF8S;
const X_LOADS: u32 = (X_PARTS + WG - 1u) / WG;

const_assert K % 8u == 0u;                                          // half8s of x
const_assert K_TILE % (FRAGMENT * SUBGROUPS_K) == 0u;               // subgroups take whole k-steps
const_assert TILE_M % (SUBGROUPS_M * FRAGMENT) == 0u;               // subgroups take whole fragments of tokens
const_assert TILE_N % (SUBGROUPS_N * FRAGMENT) == 0u;               // subgroups take whole fragments of rows
const_assert WG <= 1024u;                                           // threads of a workgroup

alias PackedTile = array<vec4<u32>, PACKED_LOADS>;
alias PlainTile = array<vec4<f32>, 2u * X_LOADS>;

var<workgroup> partial_sums: array<f32, SUBGROUPS * FRAGMENT * FRAGMENT>;

// A tile of y, and where its operands are.
struct Tile {
    matrix: u32,
    row: u32,           // first row of the matrix, and its last one
    last_row: u32,
    token: u32,         // first token
    x: u32,             // vec4 of x with its first value
    k_tiles: u32,
}

// Tokens are clamped; sums past the last one are dropped.
fn load_x_tile(tile: Tile, k_tile: u32, tid: u32) -> PlainTile {
    let last = params.rows - 1u - tile.token;
    var values: PlainTile;
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        let at = tid + i * WG;
        let first = tile.x + min(at / HALF8S, last) * (K / 4u) + (k_tile * HALF8S + at % HALF8S) * 2u;
        values[2u * i] = x_vec4(first);
        values[2u * i + 1u] = x_vec4(first + 1u);
    }
    return values;
}

fn stage_x_tile(values: PlainTile, buffer: u32, tid: u32) {
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        let at = tid + i * WG;
        if X_PARTS % WG == 0u || at < X_PARTS {
            stage_x(buffer + at / HALF8S * LD + at % HALF8S, values[2u * i], values[2u * i + 1u]);
        }
    }
}

// The tile of rows (x) and of tokens (y) that a workgroup takes. Up to RASTER tiles of tokens follow each other before the next
// rows, so that they find the weights in the cache.
fn raster(index: u32, tiles_n: u32, tiles_m: u32) -> vec2<u32> {
    let first = index / (RASTER * tiles_n) * RASTER;
    let across = min(tiles_m - first, RASTER);
    let in_group = index % (RASTER * tiles_n);
    return vec2(in_group / across, first + in_group % across);
}

// All threads of a workgroup call it.
fn gemm_tile(tile: Tile, subgroup: u32, tid: u32) {
    let part = subgroup % PARTS_MN;
    let k_part = subgroup / PARTS_MN;
    let part_x = part / SUBGROUPS_N * FRAGMENTS_M * FRAGMENT * LD;
    let part_w = part % SUBGROUPS_N * FRAGMENTS_N * FRAGMENT * LD;
    var sums: array<FragmentSum, FRAGMENTS>;
    var low_sums: array<FragmentSum, FRAGMENTS * (HALVES - 1u) + 1u>;
    var weights = load_weights(tile, 0u, tid);
    var values = load_x_tile(tile, 0u, tid);
    for (var k_tile = 0u; k_tile < tile.k_tiles; k_tile++) {
        let stage = k_tile % STAGES;
        if STAGES == 1u {
            workgroupBarrier();
        }
        stage_weights(tile, weights, stage * TILE_W, k_tile, tid);
        stage_x_tile(values, stage * HALVES * TILE_X, tid);
        workgroupBarrier();
        if k_tile + 1u < tile.k_tiles {
            weights = load_weights(tile, k_tile + 1u, tid);
            values = load_x_tile(tile, k_tile + 1u, tid);
        }
        let at_x = stage * HALVES * TILE_X + part_x + k_part * K_STEPS * (FRAGMENT / 8u);
        let at_w = stage * TILE_W + part_w + k_part * K_STEPS * (FRAGMENT / 8u);
        for (var step = 0u; step < K_STEPS; step++) {           // unroll
            var rows: array<FragmentW, FRAGMENTS_N>;
            for (var n = 0u; n < FRAGMENTS_N; n++) {            // unroll
                rows[n] = load_fragment_w(at_w + n * FRAGMENT * LD + step * (FRAGMENT / 8u));
            }
            for (var m = 0u; m < FRAGMENTS_M; m++) {            // unroll
                let tokens = load_fragment_x(at_x + m * FRAGMENT * LD + step * (FRAGMENT / 8u));
                for (var n = 0u; n < FRAGMENTS_N; n++) {        // unroll
                    sums[m * FRAGMENTS_N + n] = coopMultiplyAdd(tokens, rows[n], sums[m * FRAGMENTS_N + n]);
                }
                if HALVES == 2u {
                    let low = load_fragment_x(at_x + TILE_X + m * FRAGMENT * LD + step * (FRAGMENT / 8u));
                    for (var n = 0u; n < FRAGMENTS_N; n++) {    // unroll
                        let at = (m * FRAGMENTS_N + n) * (HALVES - 1u);
                        low_sums[at] = coopMultiplyAdd(low, rows[n], low_sums[at]);
                    }
                }
            }
        }
    }
    for (var f = 0u; f < FRAGMENTS; f++) {                      // unroll
        workgroupBarrier();
        if HALVES == 2u {
            let both = sums[f] * HIGH + low_sums[f * (HALVES - 1u)] * LOW;
            coopStoreT(both, &partial_sums[subgroup * FRAGMENT * FRAGMENT], FRAGMENT);
        } else {
            coopStoreT(sums[f] * HIGH, &partial_sums[subgroup * FRAGMENT * FRAGMENT], FRAGMENT);
        }
        workgroupBarrier();
        store_fragments(tile, f, tid);
    }
}

// Fragment `f` of every part of the tile, out of `partial_sums`.
fn store_fragments(tile: Tile, f: u32, tid: u32) {
    for (var at = tid; at < PARTS_MN * FRAGMENT * FRAGMENT; at += WG) {
        var sum = 0.0;
        for (var k_part = 0u; k_part < SUBGROUPS_K; k_part++) {
            sum += partial_sums[k_part * PARTS_MN * FRAGMENT * FRAGMENT + at];
        }
        let part = at / (FRAGMENT * FRAGMENT);
        let m = (part / SUBGROUPS_N * FRAGMENTS_M + f / FRAGMENTS_N) * FRAGMENT + at / FRAGMENT % FRAGMENT;
        let n = (part % SUBGROUPS_N * FRAGMENTS_N + f % FRAGMENTS_N) * FRAGMENT + at % FRAGMENT;
        if tile.row + n <= tile.last_row && tile.token + m < params.rows {
            store_sum_of_tile(tile.matrix, tile.row + n, tile.token + m, sum);
        }
    }
}
