// needs: subgroups f16
// A tile of a product on the matrix units: TILE_M tokens times TILE_N rows of a matrix. K-tiles of x and of the weights lie in
// workgroup memory as f16, the next ones in registers, in flight while this one is multiplied. The subgroups share the tile in
// SUBGROUPS_M x SUBGROUPS_N parts; SUBGROUPS_K of them take the k-steps of a part by turns, and their sums are added last.
//
//                                 w        TILE_N rows
//                                     +-------------------+
//                           K_TILE    |                   |   of each matrix STAGES K-tiles are in workgroup memory,
//                           columns   |                   |   the next one is in registers
//                                     +-------------------+
//       x   K_TILE columns        y
//          +--------------+           +---------+---------+
//          |              |           | f  f  f | f  f  f |   2 x 2 parts (SUBGROUPS_M, SUBGROUPS_N),
//   TILE_M |              |           | f  f  f | f  f  f |   each of 2 x 3 fragments (FRAGMENTS_M, FRAGMENTS_N),
//   tokens |              |           +---------+---------+   whose sums are registers of SUBGROUPS_K subgroups
//          |              |           | f  f  f | f  f  f |
//          |              |           | f  f  f | f  f  f |   f: FRAGMENT x FRAGMENT values
//          +--------------+           +---------+---------+
//
// UNROLL k-steps of a K-tile are written out. That pays for many tokens and weights that need no unpacking; few tokens take longer
// to fetch code than to run it.
//
// Workgroups may share a tile's K: as many to every tile (split-K, lib/coop/splitk), or each an equal number of K-tiles
// (stream-K, lib/coop/streamk). With lib/coop/whole_k a workgroup has all of K.
//
// x is f32, or packed f16 (lib/packed), which goes to workgroup memory as it is.
//
// The kernel loads and stages weights of a tile, and loads residuals and stores sums of two adjacent rows:
// requires: const K, K_TILE, TILE_M, TILE_N, SUBGROUPS_M, SUBGROUPS_N, SUBGROUPS_K, STAGES, UNROLL, RASTER
// requires: const PACKED_LOADS, LOADS_ONCE, var x, fn load_weights, stage_weights, load_residuals, store_sums_of_tile
// Where sums are stored as they are, it says so, and where y has a row for the first token:
// requires: fn stores_plainly, first_of_y
// One of lib/coop/fragment:
// requires: const FRAGMENT, SUMS_ROOM, type FragmentSum, FragmentW, fn load_fragment_x, load_fragment_w, load_sums
// requires: fn store_sums, stage_x_half8, stage_sums, staged_sums
// One of lib/coop/halves:
// requires: const LIMBS, HIGH, LOW, fn stage_x
// lib/coop/whole_k, splitk or streamk:
// requires: fn is_shared, parts_of, slot_of, partial_sum, store_partial_sums, is_last_to_arrive
#import lib/op
#import lib/coop/bits

const X_PACKED: bool = false;   // op: x_packed

const LANES: u32 = 32u;                     // device: min_subgroup
const WORKGROUP_MEMORY: u32 = 16384u;       // device: workgroup_memory
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
const PAIRS_OF_TILE: u32 = PARTS_MN * FRAGMENTS * FRAGMENT_VALUES / 2u;
const X_PARTS: u32 = TILE_M * HALF8S;
const X_LOADS: u32 = (X_PARTS + WG - 1u) / WG;
// vec4s that eight values of x take.
const X_VEC4S: u32 = select(2u, 1u, X_PACKED);

const_assert K % 8u == 0u;                                          // half8s of x
const_assert K_TILE % (FRAGMENT * SUBGROUPS_K) == 0u;               // subgroups take whole k-steps
const_assert K_STEPS % UNROLL == 0u;                                // iterations of as many k-steps
const_assert TILE_M % (SUBGROUPS_M * FRAGMENT) == 0u;               // subgroups take whole fragments of tokens
const_assert TILE_N % (SUBGROUPS_N * FRAGMENT) == 0u;               // subgroups take whole fragments of rows
const_assert WG <= 1024u;                                           // threads of a workgroup
const_assert STAGES * (LIMBS * TILE_X + TILE_W) * 16u <= WORKGROUP_MEMORY;     // tiles fit in workgroup memory
const_assert !X_PACKED || LIMBS == 1u;                             // two limbs are made of f32
const_assert TILE_M * TILE_N * LIMBS <= 160u * min(WG, 256u);         // more sums than a thread has registers

// Fragments of each subgroup whose sums are in workgroup memory at once.
const FRAGMENT_VALUES: u32 = FRAGMENT * FRAGMENT;
const STAGED: u32 = min(FRAGMENTS, SUMS_ROOM * 4u / (SUBGROUPS * FRAGMENT_VALUES));
const STAGED_BATCHES: u32 = (FRAGMENTS + STAGED - 1u) / STAGED;

const_assert SUMS_ROOM * 4u >= SUBGROUPS * FRAGMENT_VALUES;         // sums of a fragment each fit where the weights were

alias PackedTile = array<vec4<u32>, PACKED_LOADS>;
alias TileX = array<vec4<f32>, X_VEC4S * X_LOADS>;

// A tile of y, and where its operands are.
struct Tile {
    matrix: u32,
    row: u32,           // first row of the matrix, and its last one
    last_row: u32,
    token: u32,         // first token
    x: u32,             // the first eight values of x, counted in eights
    k_tile: u32,        // first K-tile, and the one behind the last
    k_end: u32,
    number: u32,        // of the tile, and of the part of K
    k_range: u32,
}

// Tokens are clamped; sums past the last one are dropped.
fn load_x_tile(tile: Tile, k_tile: u32, tid: u32) -> TileX {
    let last = params.rows - 1u - tile.token;
    var values: TileX;
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        let at = tid + i * WG;
        let first = (tile.x + min(at / HALF8S, last) * (K / 8u) + k_tile * HALF8S + at % HALF8S) * X_VEC4S;
        for (var v = 0u; v < X_VEC4S; v++) {                // unroll
            values[i * X_VEC4S + v] = x[first + v];
        }
    }
    return values;
}

fn stage_x_tile(values: TileX, buffer: u32, tid: u32) {
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        let at = tid + i * WG;
        if X_PARTS % WG == 0u || at < X_PARTS {
            let place = buffer + at / HALF8S * LD + at % HALF8S;
            if X_PACKED {
                stage_x_half8(place, bitcast<vec4<u32>>(values[i * X_VEC4S]));
            } else {
                stage_x(place, values[i * X_VEC4S], values[i * X_VEC4S + X_VEC4S - 1u]);
            }
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
    // A whole tile without activation is stored as it is, and what it is added to loaded as it is: as sums, all at once. What sums
    // are added to comes last, here as in part of a tile: a row has the same bits in either.
    let is_whole = tile.token + TILE_M <= params.rows && tile.row + TILE_N <= tile.last_row + 1u;
    let is_plain = !is_shared(tile) && SUBGROUPS_K == 1u && is_whole && stores_plainly(tile.matrix);
    let first = first_of_y(tile.matrix, tile.row + part % SUBGROUPS_N * FRAGMENTS_N * FRAGMENT)
        + (tile.token + part / SUBGROUPS_N * FRAGMENTS_M * FRAGMENT) * params.m;
    var sums: array<FragmentSum, FRAGMENTS>;
    var low_sums: array<FragmentSum, FRAGMENTS * (LIMBS - 1u) + 1u>;
    var weights: PackedTile;
    var values: TileX;
    if !LOADS_ONCE {
        weights = load_weights(tile, tile.k_tile, tid);
        values = load_x_tile(tile, tile.k_tile, tid);
    }
    for (var next = tile.k_tile + select(1u, 0u, LOADS_ONCE); next <= tile.k_end; next++) {
        let k_tile = next - 1u;
        let is_loaded = !LOADS_ONCE || next > tile.k_tile;
        let buffer = k_tile % STAGES;
        if is_loaded {
            if STAGES == 1u {
                workgroupBarrier();
            }
            stage_weights(tile, weights, buffer * TILE_W, k_tile, tid);
            stage_x_tile(values, buffer * LIMBS * TILE_X, tid);
            workgroupBarrier();
        }
        if next < tile.k_end {
            weights = load_weights(tile, next, tid);
            values = load_x_tile(tile, next, tid);
        }
        if !is_loaded {
            continue;
        }
        let at_x = buffer * LIMBS * TILE_X + part_x + k_part * K_STEPS * (FRAGMENT / 8u);
        let at_w = buffer * TILE_W + part_w + k_part * K_STEPS * (FRAGMENT / 8u);
        for (var step = 0u; step < K_STEPS; step++) {           // unroll UNROLL
            var rows: array<FragmentW, FRAGMENTS_N>;
            for (var n = 0u; n < FRAGMENTS_N; n++) {        // unroll
                rows[n] = load_fragment_w(at_w + n * FRAGMENT * LD + step * (FRAGMENT / 8u));
            }
            for (var m = 0u; m < FRAGMENTS_M; m++) {        // unroll
                let tokens = load_fragment_x(at_x + m * FRAGMENT * LD + step * (FRAGMENT / 8u));
                for (var n = 0u; n < FRAGMENTS_N; n++) {    // unroll
                    sums[m * FRAGMENTS_N + n] = coopMultiplyAdd(tokens, rows[n], sums[m * FRAGMENTS_N + n]);
                }
                if LIMBS == 2u {
                    let low = load_fragment_x(at_x + TILE_X + m * FRAGMENT * LD + step * (FRAGMENT / 8u));
                    for (var n = 0u; n < FRAGMENTS_N; n++) {    // unroll
                        let at = (m * FRAGMENTS_N + n) * (LIMBS - 1u);
                        low_sums[at] = coopMultiplyAdd(low, rows[n], low_sums[at]);
                    }
                }
            }
        }
    }
    for (var f = 0u; f < FRAGMENTS; f++) {                      // unroll
        if LIMBS == 2u {
            sums[f] = sums[f] * HIGH + low_sums[f * (LIMBS - 1u)] * LOW;
        } else {
            sums[f] = sums[f] * HIGH;
        }
    }
    if is_plain {
        for (var f = 0u; f < FRAGMENTS; f++) {                  // unroll
            let at = first + (f / FRAGMENTS_N * params.m + f % FRAGMENTS_N) * FRAGMENT;
            if ADD {
                sums[f] = sums[f] + load_sums(at, params.m);
            }
            store_sums(at, params.m, sums[f]);
        }
        return;
    }
    if is_shared(tile) {
        let at = slot_of(tile, tile.k_range) * SUBGROUPS + subgroup;
        for (var f = 0u; f < FRAGMENTS; f++) {                  // unroll
            store_partial_sums((at * FRAGMENTS + f) * FRAGMENT_VALUES, sums[f]);
        }
        if is_last_to_arrive(tile.number, parts_of(tile), tid) {
            store_all_parts(tile, tid);
        }
        return;
    }
    for (var batch = 0u; batch < STAGED_BATCHES; batch++) {     // unroll
        workgroupBarrier();
        for (var i = 0u; i < STAGED; i++) {                     // unroll
            stage_sums((subgroup * STAGED + i) * FRAGMENT_VALUES / 4u, sums[min(batch * STAGED + i, FRAGMENTS - 1u)]);
        }
        workgroupBarrier();
        store_fragments(tile, batch * STAGED, tid);
    }
}

// Pairs of sums that a thread loads before it stores any. Where they are added to y, loads of it wait for the stores before them.
const PAIRS_TOGETHER: u32 = select(1u, 4u, ADD);

// The fragments from `begin` on of every part of the tile, whose sums are staged. Adjacent threads store adjacent values.
fn store_fragments(tile: Tile, begin: u32, tid: u32) {
    const pairs = PARTS_MN * STAGED * FRAGMENT_VALUES / 2u;
    for (var first = tid; first < pairs; first += WG * PAIRS_TOGETHER) {
        var places: array<Place, PAIRS_TOGETHER>;
        var sums: array<vec2<f32>, PAIRS_TOGETHER>;
        for (var i = 0u; i < PAIRS_TOGETHER; i++) {             // unroll
            let at = min(first + i * WG, pairs - 1u) * 2u;
            let f = begin + at / FRAGMENT_VALUES % STAGED;
            places[i] = place_of(tile, at / (STAGED * FRAGMENT_VALUES), f, at % FRAGMENT_VALUES);
            sums[i] = load_residuals(tile, places[i]);
            for (var k_part = 0u; k_part < SUBGROUPS_K; k_part++) {
                let vec = staged_sums((k_part * PARTS_MN * STAGED * FRAGMENT_VALUES + at) / 4u);
                sums[i] += select(vec.xy, vec.zw, at % 4u == 2u);
            }
        }
        for (var i = 0u; i < PAIRS_TOGETHER; i++) {             // unroll
            if places[i].is_inside && first + i * WG < pairs {
                store_sums_of_tile(tile, places[i], sums[i]);
            }
        }
    }
}

// The whole tile out of what its workgroups have handed over, summed in their order. A short loop: one workgroup of a tile runs it,
// once, and waits for what it has not in its instruction cache.
fn store_all_parts(tile: Tile, tid: u32) {
    for (var first = tid; first < PAIRS_OF_TILE; first += WG * PAIRS_TOGETHER) {
        var places: array<Place, PAIRS_TOGETHER>;
        var sums: array<vec2<f32>, PAIRS_TOGETHER>;
        for (var i = 0u; i < PAIRS_TOGETHER; i++) {             // unroll
            let at = min(first + i * WG, PAIRS_OF_TILE - 1u) * 2u;
            let f = at / FRAGMENT_VALUES % FRAGMENTS;
            places[i] = place_of(tile, at / (FRAGMENTS * FRAGMENT_VALUES), f, at % FRAGMENT_VALUES);
            sums[i] = load_residuals(tile, places[i]);
        }
        for (var part = 0u; part < parts_of(tile) * SUBGROUPS_K; part++) {
            let slot = slot_of(tile, part / SUBGROUPS_K) * SUBGROUPS_K + part % SUBGROUPS_K;
            for (var i = 0u; i < PAIRS_TOGETHER; i++) {         // unroll
                let at = min(first + i * WG, PAIRS_OF_TILE - 1u) * 2u;
                let source = slot * PAIRS_OF_TILE * 2u + at;
                sums[i] += vec2(partial_sum(source), partial_sum(source + 1u));
            }
        }
        for (var i = 0u; i < PAIRS_TOGETHER; i++) {             // unroll
            if places[i].is_inside && first + i * WG < PAIRS_OF_TILE {
                store_sums_of_tile(tile, places[i], sums[i]);
            }
        }
    }
}

// Two adjacent rows of the matrix, for a token.
struct Place {
    row: u32,
    token: u32,
    is_inside: bool,    // of the tile
}

// The place of value `at` of fragment `f` of a part of the tile.
fn place_of(tile: Tile, part: u32, f: u32, at: u32) -> Place {
    let token = tile.token + (part / SUBGROUPS_N * FRAGMENTS_M + f / FRAGMENTS_N) * FRAGMENT + at / FRAGMENT;
    let row = tile.row + (part % SUBGROUPS_N * FRAGMENTS_N + f % FRAGMENTS_N) * FRAGMENT + at % FRAGMENT;
    let is_inside = f < FRAGMENTS && token < params.rows && row <= tile.last_row;
    return Place(row, token, is_inside);
}
