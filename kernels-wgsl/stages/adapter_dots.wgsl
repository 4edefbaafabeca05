// One invocation's share of the products of ROWS rows of an adapter with its hidden values of TOKENS tokens: of LANES, it
// is number `own`, and takes every LANES-th piece, UNROLL of them at once. Imported for an adapter that is read in pieces:
// `#import adapter_dots as w2` makes `w2_dots`. Rows are as long as the rank is high, so that pieces are counted through
// the whole matrix. Needs `const LANES, ROWS, TOKENS, UNROLL` and `x_quad`.
fn weight_dots(adapter: u32, row: u32, token: u32, own: u32) -> array<f32, ROWS * TOKENS> {
    let pieces = params.ranks[adapter] / weight_span;
    let column = column_of(adapter);
    var sums: array<f32, ROWS * TOKENS>;
    for (var first = own; first < pieces; first += LANES * UNROLL) {
        for (var u = 0u; u < UNROLL; u++) {             // unroll
            // Past the last piece, row or token the last one is read again. Of those the first counts for nothing, the
            // others' sums are not to be stored.
            let piece = min(first + u * LANES, pieces - 1u);
            let counts = select(0.0, 1.0, first + u * LANES < pieces);
            var taken: array<weight_piece, ROWS>;
            for (var i = 0u; i < ROWS; i++) {           // unroll
                taken[i] = weight_take(0u, min(row + i, params.m - 1u) * pieces + piece);
            }
            for (var t = 0u; t < TOKENS; t++) {         // unroll
                let hidden = min(token + t, params.rows - 1u) * params.k + column;
                let columns = weight_meet(0u, hidden / weight_span + piece);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    sums[i * TOKENS + t] += counts * weight_dot(taken[i], columns);
                }
            }
        }
    }
    return sums;
}
