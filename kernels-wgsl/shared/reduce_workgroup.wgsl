// The sum of one value per invocation, for all of the workgroup; needs `const WG`, a power of two.
var<workgroup> partials: array<f32, WG>;

fn workgroup_sum(lane: u32, value: f32) -> f32 {
    partials[lane] = value;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partials[lane] += partials[lane + half];
        }
        workgroupBarrier();
    }
    let sum = partials[0];
    workgroupBarrier();
    return sum;
}
