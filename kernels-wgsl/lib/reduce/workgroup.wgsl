// Sums over a workgroup in workgroup memory. WG is a power of two.
// requires: const WG

// A thread of a workgroup.
struct Thread {
    @builtin(local_invocation_index) tid: u32,
}

var<workgroup> partials: array<f32, WG>;

// The sum of one value per thread, for all of the workgroup.
fn reduce_sum(thread: Thread, value: f32) -> f32 {
    partials[thread.tid] = value;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if thread.tid < stride {
            partials[thread.tid] += partials[thread.tid + stride];
        }
        workgroupBarrier();
    }
    let sum = partials[0];
    workgroupBarrier();
    return sum;
}
