// The sum of one value per invocation over LANES neighbours, a power of two that is not above a subgroup's size.
fn lanes_sum(value: f32) -> f32 {
    var sum = value;
    for (var distance = LANES / 2u; distance > 0u; distance /= 2u) {
        sum += subgroupShuffleXor(sum, distance);
    }
    return sum;
}
