// A thread's share of the product of one row of an adapter's second half with its hidden values: of THREADS_PER_ROW it is
// number `row_lane`, and takes every THREADS_PER_ROW-th packed load, all of them in flight. Imported for an adapter with packed
// readers: `#import lib/gemv/adapter_row as w2` makes `w2_load_row`, for before the hidden values are there, and `w2_share`.
// requires: const THREADS_PER_ROW, weight_rank
const weight_loads: u32 = weight_rank / weight_values_per_load;
const weight_last: u32 = max(weight_loads, 1u) - 1u;
const weight_loads_per_thread: u32 = weight_last / THREADS_PER_ROW + 1u;

// Loads are clamped; those past the end count 0.
fn weight_load_row(row: u32, row_lane: u32) -> array<vec4<u32>, weight_loads_per_thread> {
    var words: array<vec4<u32>, weight_loads_per_thread>;
    for (var i = 0u; i < weight_loads_per_thread; i++) {     // unroll
        words[i] = weight_load_packed(0u, row * weight_loads + min(i * THREADS_PER_ROW + row_lane, weight_last));
    }
    return words;
}

// The hidden values begin at this column.
fn weight_share(row: u32, words: array<vec4<u32>, weight_loads_per_thread>, column: u32, row_lane: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < weight_loads_per_thread; i++) {     // unroll
        let load = i * THREADS_PER_ROW + row_lane;
        let weights = weight_unpack(0u, row * weight_loads + min(load, weight_last), words[i]);
        let product = weight_dot(weights, weight_load_x(0u, column / weight_values_per_load + min(load, weight_last)));
        sum += select(0.0, product, load < weight_loads);
    }
    return sum;
}
