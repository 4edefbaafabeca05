// A thread's share of the products of ROWS rows of a matrix with TOKENS rows of x: it takes every WG-th group of 32 weights,
// dequantised once for all tokens. Imported for a matrix: `#import lib/gemv/dot_rows32 as w` makes `w_dot_rows32`. x is
// vec4s, in rows of params.k values.
// requires: const ROWS, TOKENS, WG, var params, x
fn weight_dot_rows32(row: u32, last_row: u32, x_row: u32, last_x_row: u32, tid: u32) -> array<f32, ROWS * TOKENS> {
    let groups = params.k / 32u;
    var sums: array<f32, ROWS * TOKENS>;
    for (var group = tid; group < groups; group += WG) {
        for (var i = 0u; i < ROWS; i++) {
            // Rows are clamped; sums past the end are dropped.
            let weights = weight_load32(min(row + i, last_row) * groups + group);
            for (var t = 0u; t < TOKENS; t++) {
                let at = (min(x_row + t, last_x_row) * groups + group) * 8u;
                var sum = 0.0;
                for (var j = 0u; j < 8u; j++) {
                    sum += dot(weights[j], x[at + j]);
                }
                sums[i * TOKENS + t] += sum;
            }
        }
    }
    return sums;
}
