// Sums over a workgroup in workgroup memory. Needs `const WG`, a power of two.

// A thread of a workgroup.
struct Thread {
    @builtin(local_invocation_index) tid: u32,
}

var<workgroup> partials: array<f32, WG>;

// The sum of one value per thread, for all of the workgroup.
fn reduce_sum(thread: Thread, value: f32) -> f32 {
    partials[thread.tid] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if thread.tid < half {
            partials[thread.tid] += partials[thread.tid + half];
        }
        workgroupBarrier();
    }
    let sum = partials[0];
    workgroupBarrier();
    return sum;
}
