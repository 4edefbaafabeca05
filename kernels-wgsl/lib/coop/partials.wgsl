// sums: its own
// Workgroups that share a tile of lib/coop/gemm hand their sums over in storage, each in a slot of its own; the last to arrive
// adds them up, in the order of K, and stores. No workgroup waits for another. The counters are zeros between dispatches: the
// last one resets its own.
// requires: const FRAGMENT, type FragmentSum
const MAX_TILES: u32 = 4096u;

@group(0) @binding(20) var<storage, read_write> partials: array<f32>;            // [slots, TILE_M * TILE_N]
@group(0) @binding(21) var<storage, read_write> arrivals: array<atomic<u32>>;    // [MAX_TILES]

var<workgroup> before: u32;

fn store_partial_sums(at: u32, sums: FragmentSum) {
    coopStoreT(sums, &partials[at], FRAGMENT);
}

fn partial_sum(at: u32) -> f32 {
    return partials[at];
}

// Whether all `parts` of a tile are there. All threads call it, with their sums stored.
fn is_last_to_arrive(tile: u32, parts: u32, tid: u32) -> bool {
    storageBarrier();
    workgroupBarrier();
    if tid == 0u {
        before = atomicAdd(&arrivals[tile], 1u);
        if before == parts - 1u {
            atomicStore(&arrivals[tile], 0u);
        }
    }
    let arrived = workgroupUniformLoad(&before);
    storageBarrier();
    return arrived == parts - 1u;
}
