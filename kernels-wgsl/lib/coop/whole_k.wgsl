// sums: one after another along K
// A workgroup has all of K: what lib/coop/gemm needs in place of lib/coop/splitk.
const SPLIT_K: u32 = 1u;

fn store_partial_sums(at: u32, sums: FragmentSum) {
}

fn partial_sum(at: u32) -> f32 {
    return 0.0;
}

fn is_last_to_arrive(tile: u32, tid: u32) -> bool {
    return true;
}
