// The sum of one value per invocation, for all of the workgroup: within subgroups first, then across them.
// Needs `const WG`. Subgroups have at least 4 invocations.
var<workgroup> partials: array<f32, WG / 4u>;

fn workgroup_sum(subgroup: u32, subgroups: u32, subgroup_lane: u32, value: f32) -> f32 {
    let own = subgroupAdd(value);
    if subgroup_lane == 0u {
        partials[subgroup] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < subgroups; i++) {
        sum += partials[i];
    }
    workgroupBarrier();
    return sum;
}
