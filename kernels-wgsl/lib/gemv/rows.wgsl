// Products of consecutive rows of a matrix with one token whose x is staged, by a whole workgroup: THREADS_PER_ROW lanes share
// ROWS rows, UNROLL packed loads of each in flight. Imported for a matrix with packed readers: `#import lib/gemv/rows as w`
// makes `w_prefetch` and `w_gemv_rows`.
// What a thread reads first of rows `begin` to `end`: it depends on nothing.
// requires: const K, ROWS, THREADS_PER_ROW, UNROLL, WG, var y, fn activate, row_sum
fn weight_prefetch(begin: u32, end: u32, tid: u32) -> array<array<vec4<u32>, ROWS>, UNROLL> {
    var words: array<array<vec4<u32>, ROWS>, UNROLL>;
    for (var u = 0u; u < UNROLL; u++) {             // unroll
        let row = begin + tid / THREADS_PER_ROW * ROWS;
        words[u] = weight_load_rows(row, end, tid % THREADS_PER_ROW + u * THREADS_PER_ROW);
    }
    return words;
}

// Rows and loads are clamped; sums past the end are dropped.
fn weight_load_rows(row: u32, end: u32, load: u32) -> array<vec4<u32>, ROWS> {
    var words: array<vec4<u32>, ROWS>;
    if row < end {
        for (var i = 0u; i < ROWS; i++) {           // unroll
            words[i] = weight_load_packed(min(row + i, end - 1u), min(load, K / weight_values_per_load - 1u));
        }
    }
    return words;
}

// Stores the products of rows `begin` to `end` at y[at + row].
fn weight_gemv_rows(
    begin: u32,
    end: u32,
    at: u32,
    kind: u32,
    tid: u32,
    in_flight: array<array<vec4<u32>, ROWS>, UNROLL>,
) {
    let loads = K / weight_values_per_load;
    let row_lane = tid % THREADS_PER_ROW;
    var words = in_flight;
    for (var block = begin; block < end; block += WG / THREADS_PER_ROW * ROWS) {
        let row = block + tid / THREADS_PER_ROW * ROWS;
        var sums: array<f32, ROWS>;
        for (var first = row_lane; first < loads + row_lane; first += THREADS_PER_ROW * UNROLL) {
            // The same rows' next iteration, or the first one of the next rows.
            let goes_on = first + THREADS_PER_ROW * UNROLL < loads + row_lane;
            let next_row = select(row + WG / THREADS_PER_ROW * ROWS, row, goes_on);
            let next = select(row_lane, first + THREADS_PER_ROW * UNROLL, goes_on);
            for (var u = 0u; u < UNROLL; u++) {     // unroll
                let load = min(first + u * THREADS_PER_ROW, loads - 1u);
                let counts = first + u * THREADS_PER_ROW < loads;
                let values = weight_load_x(0u, load);
                for (var i = 0u; i < ROWS; i++) {   // unroll
                    let weights = weight_unpack(min(row + i, end - 1u), load, words[u][i]);
                    sums[i] += select(0.0, weight_dot(weights, values), counts);
                }
                // Issued as soon as there are registers: in flight while the other words are multiplied.
                words[u] = weight_load_rows(next_row, end, next + u * THREADS_PER_ROW);
            }
        }
        for (var i = 0u; i < ROWS; i++) {           // unroll
            let sum = row_sum(sums[i]);
            if row_lane == 0u && row + i < end {
                y[at + row + i] = activate(kind, sum);
            }
        }
    }
}
