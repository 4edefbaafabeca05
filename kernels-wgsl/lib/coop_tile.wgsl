// needs: subgroups f16 cooperative-matrix
// A tile of the product of a matrix with some dozens of tokens, on matrix units: TILE_ROWS rows and TILE_TOKENS tokens. Of each
// K-tile the SPLIT_K subgroups take K_STEPS steps of 16; their sums are added last. Imported for a matrix with a half8 reader:
// `#import lib/coop_tile as w` makes `w_tile`. Needs `enable f16; enable wgpu_cooperative_matrix;`, what lib/split_f16 needs,
// `const PREFETCH_DEPTH` and `store_sum_of_tile`. All threads of a workgroup call it.
#import lib/split_f16

// The at-th half8 of a K-tile of a tile's rows. K-tiles are whole: past the end x is zero.
fn weight_load_tile(row: u32, k_tile: u32, at: u32) -> Half8 {
    return weight_load_half8(row + at / HALF8S, min(k_tile * HALF8S + at % HALF8S, K / 8u - 1u));
}

// `token` and `last` count rows of x; `first_token` goes to `store_sum_of_tile` with every row and token of the tile.
fn weight_tile(first_token: u32, row: u32, token: u32, last: u32, k_part: u32, tid: u32) {
    var high_sums: array<coop_mat16x16<f32, C>, TILES>;
    var low_sums: array<coop_mat16x16<f32, C>, TILES>;
    var weights: array<Half8, PREFETCH_DEPTH * ROW_LOADS>;
    var values: array<vec4<f32>, X_LOADS>;
    for (var stage = 0u; stage < PREFETCH_DEPTH; stage++) {          // unroll
        for (var i = 0u; i < ROW_LOADS; i++) {              // unroll
            weights[stage * ROW_LOADS + i] = weight_load_tile(row, stage, tid + i * WG);
        }
    }
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        values[i] = load_x_vec4(0u, token, last, tid + i * WG);
    }
    for (var first = 0u; first < K_TILES; first += PREFETCH_DEPTH) {
        for (var stage = 0u; stage < PREFETCH_DEPTH; stage++) {      // unroll
            workgroupBarrier();
            for (var i = 0u; i < ROW_LOADS; i++) {          // unroll
                stage_half8(tid + i * WG, weights[stage * ROW_LOADS + i]);
            }
            for (var i = 0u; i < X_LOADS; i++) {            // unroll
                stage_split(tid + i * WG, values[i]);
            }
            workgroupBarrier();
            for (var i = 0u; i < X_LOADS; i++) {            // unroll
                values[i] = load_x_vec4(first + stage + 1u, token, last, tid + i * WG);
            }
            for (var i = 0u; i < ROW_LOADS; i++) {          // unroll
                weights[stage * ROW_LOADS + i] = weight_load_tile(row, first + stage + PREFETCH_DEPTH, tid + i * WG);
            }
            for (var step = 0u; step < K_STEPS; step++) {   // unroll
                let k_step = (k_part * K_STEPS + step) * 4u;
                for (var t = 0u; t < TILES_M; t++) {        // unroll
                    let high = coopLoadT<coop_mat16x16<f16, A>>(&tile_high[t * 16u * LD + k_step], LD);
                    let low = coopLoadT<coop_mat16x16<f16, A>>(&tile_low[t * 16u * LD + k_step], LD);
                    for (var r = 0u; r < TILES_N; r++) {    // unroll
                        let rows = coopLoad<coop_mat16x16<f16, B>>(&tile_rows[r * 16u * LD + k_step], LD);
                        high_sums[t * TILES_N + r] = coopMultiplyAdd(high, rows, high_sums[t * TILES_N + r]);
                        low_sums[t * TILES_N + r] = coopMultiplyAdd(low, rows, low_sums[t * TILES_N + r]);
                    }
                }
            }
        }
    }
    for (var t = 0u; t < TILES_M; t++) {                    // unroll
        for (var r = 0u; r < TILES_N; r++) {                // unroll
            workgroupBarrier();
            let sums = high_sums[t * TILES_N + r] * HIGH + low_sums[t * TILES_N + r] * LOW;
            coopStoreT(sums, &partial_sums[k_part * 256u], 16u);
            workgroupBarrier();
            for (var at = tid; at < 256u; at += WG) {
                var sum = 0.0;
                for (var p = 0u; p < SPLIT_K; p++) {
                    sum += partial_sums[p * 256u + at];
                }
                store_sum_of_tile(first_token, row + r * 16u + at % 16u, t * 16u + at / 16u, sum);
            }
        }
    }
}
