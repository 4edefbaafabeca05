// One invocation's share of the products of ROWS rows of a matrix with TOKENS rows of x: it takes every WG-th group of 32
// columns. Imported for a matrix: `#import row_products as w` makes `w_products`. Needs `const WG, ROWS, TOKENS`, and x
// as vec4 with rows of params.k columns.
fn weight_products(row: u32, last_row: u32, x_row: u32, last_x_row: u32, lane: u32) -> array<f32, ROWS * TOKENS> {
    let groups = params.k / 32u;
    var sums: array<f32, ROWS * TOKENS>;
    for (var group = lane; group < groups; group += WG) {
        for (var i = 0u; i < ROWS; i++) {
            // Past the last row the last one is read again; its sum is not stored.
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
