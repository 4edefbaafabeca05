// A thread's share of the products of ROWS rows of a matrix with TOKENS rows of x: of the THREADS_PER_ROW that read the rows
// together it is number `row_lane`, and takes every THREADS_PER_ROW-th packed load, UNROLL of them in flight. Imported for a
// matrix with packed readers: `#import lib/gemv/dot_rows as w` makes `w_dot_rows`.
// requires: const K, ROWS, THREADS_PER_ROW, TOKENS, UNROLL
fn weight_dot_rows(row: u32, last_row: u32, x_row: u32, last_x_row: u32, row_lane: u32) -> array<f32, ROWS * TOKENS> {
    let stride = THREADS_PER_ROW * UNROLL;
    // Loads in whole iterations; the rest is taken one by one.
    let whole = K / weight_values_per_load / stride * stride;
    var sums: array<f32, ROWS * TOKENS>;
    for (var load = row_lane; load < whole; load += stride) {
        for (var u = 0u; u < UNROLL; u++) {     // unroll
            sums = weight_add_load(sums, row, last_row, x_row, last_x_row, load + u * THREADS_PER_ROW);
        }
    }
    for (var load = whole + row_lane; load < K / weight_values_per_load; load += THREADS_PER_ROW) {
        sums = weight_add_load(sums, row, last_row, x_row, last_x_row, load);
    }
    return sums;
}

// The sums with the products of one load of every row: it is unpacked once for all tokens, x is loaded once for all rows. Rows
// and tokens are clamped; sums past the end are dropped.
fn weight_add_load(
    before: array<f32, ROWS * TOKENS>,
    row: u32,
    last_row: u32,
    x_row: u32,
    last_x_row: u32,
    load: u32,
) -> array<f32, ROWS * TOKENS> {
    var sums = before;
    var weights: array<weight_values, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        weights[i] = weight_load(min(row + i, last_row), load);
    }
    for (var t = 0u; t < TOKENS; t++) {         // unroll
        let values = weight_load_x(min(x_row + t, last_x_row) * (K / 16u), load);
        for (var i = 0u; i < ROWS; i++) {       // unroll
            sums[i * TOKENS + t] += weight_dot(weights[i], values);
        }
    }
    return sums;
}
