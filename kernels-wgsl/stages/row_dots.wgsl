// One invocation's share of the products of ROWS rows of a matrix with TOKENS rows of x: of the LANES that read the rows
// together, it is number `own`, and takes every LANES-th piece, UNROLL of them at once. Imported for a matrix that is
// read in pieces: `#import row_dots as w` makes `w_dots`. Needs `const K, LANES, ROWS, TOKENS, UNROLL`.
fn weight_dots(row: u32, last_row: u32, x_row: u32, last_x_row: u32, own: u32) -> array<f32, ROWS * TOKENS> {
    let round = LANES * UNROLL;
    // Pieces in whole rounds; what is left over is taken one by one.
    let whole = K / weight_span / round * round;
    var sums: array<f32, ROWS * TOKENS>;
    for (var piece = own; piece < whole; piece += round) {
        for (var u = 0u; u < UNROLL; u++) {     // unroll
            sums = weight_added(sums, row, last_row, x_row, last_x_row, piece + u * LANES);
        }
    }
    for (var piece = whole + own; piece < K / weight_span; piece += LANES) {
        sums = weight_added(sums, row, last_row, x_row, last_x_row, piece);
    }
    return sums;
}

// The sums with the products of one piece of every row: it is decoded once for all tokens, columns of x are met once for
// all rows. Past the last row or token the last one is read again; its sums are not to be stored.
fn weight_added(
    before: array<f32, ROWS * TOKENS>,
    row: u32,
    last_row: u32,
    x_row: u32,
    last_x_row: u32,
    piece: u32,
) -> array<f32, ROWS * TOKENS> {
    var sums = before;
    var taken: array<weight_piece, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        taken[i] = weight_take(min(row + i, last_row), piece);
    }
    for (var t = 0u; t < TOKENS; t++) {         // unroll
        let columns = weight_meet(min(x_row + t, last_x_row) * (K / 16u), piece);
        for (var i = 0u; i < ROWS; i++) {       // unroll
            sums[i * TOKENS + t] += weight_dot(taken[i], columns);
        }
    }
    return sums;
}
