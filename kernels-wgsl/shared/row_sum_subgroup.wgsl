// The sum over the SPLIT neighbouring invocations that share a row; they are always of one subgroup, which has at least
// 4 invocations. `which` is 0 or 1, in turn: see row_sum_workgroup.wgsl.
fn row_sum(lane: u32, which: u32, value: f32) -> f32 {
    var sum = value;
    for (var apart = 1u; apart < SPLIT; apart *= 2u) {
        sum += subgroupShuffleXor(sum, apart);
    }
    return sum;
}
