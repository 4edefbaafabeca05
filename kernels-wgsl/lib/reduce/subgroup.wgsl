// needs: subgroups
// Sums over a workgroup within subgroups first: two barriers a sum.
// requires: const WG

// A thread of a workgroup, and of a subgroup.
struct Thread {
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) num_subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

// Subgroups have at least 4 threads.
var<workgroup> partials: array<f32, WG / 4u>;

// The sum of one value per thread, for all of the workgroup.
fn reduce_sum(thread: Thread, value: f32) -> f32 {
    let own = subgroupAdd(value);
    if thread.lane == 0u {
        partials[thread.subgroup] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < thread.num_subgroups; i++) {
        sum += partials[i];
    }
    workgroupBarrier();
    return sum;
}
