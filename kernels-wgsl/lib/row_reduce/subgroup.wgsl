// needs: subgroups
// Sums over the THREADS_PER_ROW adjacent threads that share a row, by shuffles.
// requires: const THREADS_PER_ROW
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;   // the threads of a row are in one subgroup

// `which` is 0 and 1 in turn: see lib/row_reduce/workgroup.
fn row_reduce(tid: u32, which: u32, value: f32) -> f32 {
    var sum = value;
    for (var mask = 1u; mask < THREADS_PER_ROW; mask *= 2u) {
        sum += subgroupShuffleXor(sum, mask);
    }
    return sum;
}
