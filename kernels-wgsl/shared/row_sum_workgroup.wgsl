// The sum over the SPLIT neighbouring invocations that share a row. Calls take `which` 0 and 1 in turn, so that no
// partial sum is overwritten while others still read it. Needs `const WG`.
var<workgroup> row_partials: array<f32, 2u * WG>;

fn row_sum(lane: u32, which: u32, value: f32) -> f32 {
    if SPLIT == 1u {
        return value;
    }
    row_partials[which * WG + lane] = value;
    workgroupBarrier();
    let first = which * WG + lane / SPLIT * SPLIT;
    var sum = 0.0;
    for (var i = 0u; i < SPLIT; i++) {
        sum += row_partials[first + i];
    }
    return sum;
}
