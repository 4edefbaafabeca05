// A tile of the product of a matrix in f16 with some dozens of tokens, on matrix units: TILE_ROWS rows and TILE_TOKENS
// tokens. Of each slab of columns the PARTS subgroups take DEPTH runs of 16; their sums meet at the end. Imported for a
// matrix: `#import matrix_tile as w` makes `w_tile`. Needs `enable f16; enable wgpu_cooperative_matrix;`, `const K, WG,
// TILE_ROWS, TILE_TOKENS, PARTS, DEPTH, AHEAD`, the matrix as `array<Eight>`, x as quads and `take_sum`. Everybody of a
// workgroup calls it.
#import matrix_slab

// The at-th eight of a slab of a tile's rows. Rounds are whole: past the end the last columns meet zeros of x.
fn weight_eight(row: u32, slab: u32, at: u32) -> Eight {
    return weight[(row + at / EIGHTS) * (K / 8u) + min(slab * EIGHTS + at % EIGHTS, K / 8u - 1u)];
}

// `token` and `last` count rows of x; `place` goes to `take_sum` with every row and token of the tile.
fn weight_tile(place: u32, row: u32, token: u32, last: u32, part: u32, lane: u32) {
    var high_sums: array<coop_mat16x16<f32, C>, TILES>;
    var low_sums: array<coop_mat16x16<f32, C>, TILES>;
    var eights: array<Eight, AHEAD * ROW_LOADS>;
    var quads: array<vec4<f32>, X_LOADS>;
    for (var a = 0u; a < AHEAD; a++) {                      // unroll
        for (var i = 0u; i < ROW_LOADS; i++) {              // unroll
            eights[a * ROW_LOADS + i] = weight_eight(row, a, lane + i * WG);
        }
    }
    for (var i = 0u; i < X_LOADS; i++) {                    // unroll
        quads[i] = slab_quad(0u, token, last, lane + i * WG);
    }
    for (var first = 0u; first < SLABS; first += AHEAD) {
        for (var a = 0u; a < AHEAD; a++) {                  // unroll
            workgroupBarrier();
            for (var i = 0u; i < ROW_LOADS; i++) {          // unroll
                keep_eight(lane + i * WG, eights[a * ROW_LOADS + i]);
            }
            for (var i = 0u; i < X_LOADS; i++) {            // unroll
                keep_halves(lane + i * WG, quads[i]);
            }
            workgroupBarrier();
            for (var i = 0u; i < X_LOADS; i++) {            // unroll
                quads[i] = slab_quad(first + a + 1u, token, last, lane + i * WG);
            }
            for (var i = 0u; i < ROW_LOADS; i++) {          // unroll
                eights[a * ROW_LOADS + i] = weight_eight(row, first + a + AHEAD, lane + i * WG);
            }
            for (var d = 0u; d < DEPTH; d++) {              // unroll
                let run = (part * DEPTH + d) * 4u;
                for (var t = 0u; t < DOWN; t++) {           // unroll
                    let high = coopLoadT<coop_mat16x16<f16, A>>(&high_halves[t * 16u * LD + run], LD);
                    let low = coopLoadT<coop_mat16x16<f16, A>>(&low_halves[t * 16u * LD + run], LD);
                    for (var r = 0u; r < ACROSS; r++) {     // unroll
                        let rows = coopLoad<coop_mat16x16<f16, B>>(&slab_rows[r * 16u * LD + run], LD);
                        high_sums[t * ACROSS + r] = coopMultiplyAdd(high, rows, high_sums[t * ACROSS + r]);
                        low_sums[t * ACROSS + r] = coopMultiplyAdd(low, rows, low_sums[t * ACROSS + r]);
                    }
                }
            }
        }
    }
    for (var t = 0u; t < DOWN; t++) {                       // unroll
        for (var r = 0u; r < ACROSS; r++) {                 // unroll
            workgroupBarrier();
            let sums = high_sums[t * ACROSS + r] * HIGH + low_sums[t * ACROSS + r] * LOW;
            coopStoreT(sums, &part_sums[part * 256u], 16u);
            workgroupBarrier();
            for (var at = lane; at < 256u; at += WG) {
                var sum = 0.0;
                for (var p = 0u; p < PARTS; p++) {
                    sum += part_sums[p * 256u + at];
                }
                take_sum(place, row + r * 16u + at % 16u, t * 16u + at / 16u, sum);
            }
        }
    }
}
