// Sums over the THREADS_PER_ROW adjacent threads that share a row, in workgroup memory.
// requires: const THREADS_PER_ROW, WG
var<workgroup> row_partials: array<f32, 2u * WG>;

// Calls take `which` 0 and 1 in turn, so that no partial sum is overwritten while others still read it.
fn row_reduce(tid: u32, which: u32, value: f32) -> f32 {
    if THREADS_PER_ROW == 1u {
        return value;
    }
    row_partials[which * WG + tid] = value;
    workgroupBarrier();
    let first = which * WG + tid / THREADS_PER_ROW * THREADS_PER_ROW;
    var sum = 0.0;
    for (var i = 0u; i < THREADS_PER_ROW; i++) {
        sum += row_partials[first + i];
    }
    return sum;
}
