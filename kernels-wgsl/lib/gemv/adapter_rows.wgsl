// A thread's share of the products of ROWS rows of an adapter's second half with its hidden values of TOKENS tokens: of
// THREADS_PER_ROW it is number `row_lane`, and takes every THREADS_PER_ROW-th packed load, UNROLL of them in flight. Imported
// for an adapter with packed readers: `#import lib/gemv/adapter_rows as w2` makes `w2_dot_rows`. A row is as long as the rank
// is high: loads are counted through the whole matrix.
// requires: const ROWS, THREADS_PER_ROW, TOKENS, UNROLL, var params, fn column_of
fn weight_dot_rows(adapter: u32, row: u32, token: u32, row_lane: u32) -> array<f32, ROWS * TOKENS> {
    let loads = params.ranks[adapter] / weight_values_per_load;
    let column = column_of(adapter);
    var sums: array<f32, ROWS * TOKENS>;
    for (var first = row_lane; first < loads; first += THREADS_PER_ROW * UNROLL) {
        for (var u = 0u; u < UNROLL; u++) {             // unroll
            // Loads, rows and tokens are clamped: a load past the end counts 0, sums past the end are dropped.
            let load = min(first + u * THREADS_PER_ROW, loads - 1u);
            let counts = select(0.0, 1.0, first + u * THREADS_PER_ROW < loads);
            var weights: array<weight_values, ROWS>;
            for (var i = 0u; i < ROWS; i++) {           // unroll
                weights[i] = weight_load(0u, min(row + i, params.m - 1u) * loads + load);
            }
            for (var t = 0u; t < TOKENS; t++) {         // unroll
                let hidden = min(token + t, params.rows - 1u) * params.k + column;
                let values = weight_load_x(0u, hidden / weight_values_per_load + load);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    sums[i * TOKENS + t] += counts * weight_dot(weights[i], values);
                }
            }
        }
    }
    return sums;
}
