// A barrier among all workgroups of a dispatch (Xiao and Feng, "Inter-block GPU communication via fast barrier
// synchronization", 2010), for phases that hand values from one workgroup to another. WGSL does not promise that
// workgroups run at once: a wait that times out says so and leaves, and so do all later ones. Must match
// crates/kernels/src/persistent.rs.
// requires: const WORKGROUPS

struct GridBarrier {
    arrived: atomic<u32>,   // at all barriers of this dispatch
    left: atomic<u32>,
    timed_out: atomic<u32>, // for the host to read; nothing runs until it has cleared it
}
@group(0) @binding(0) var<storage, read_write> grid_barrier: GridBarrier;    // [1]

// Spins until a wait times out; about 10 ms on a fast GPU. Some software devices end loops at 65,535 iterations.
const SPIN_LIMIT: u32 = 60000u;

var<workgroup> barrier_failed: u32;
// Arrivals of this workgroup.
var<private> arrivals: u32 = 0u;

// Whether an earlier dispatch timed out.
fn is_aborted(tid: u32) -> bool {
    if tid == 0u {
        barrier_failed = atomicLoad(&grid_barrier.timed_out);
    }
    workgroupBarrier();
    return has_timed_out();
}

// With the broadcast compilers see that a whole subgroup takes one path.
fn has_timed_out() -> bool {
    return subgroupBroadcastFirst(barrier_failed) != 0u;
}

// Announces that this workgroup has finished what comes before.
fn arrive(tid: u32) {
    storageBarrier();
    workgroupBarrier();
    arrivals++;
    if tid == 0u {
        atomicAdd(&grid_barrier.arrived, 1u);
    }
}

// Waits until all workgroups have arrived as often as this one, or times out: see `has_timed_out`. Loads issued between arrive()
// and wait() stay in flight; a storageBarrier() here would stall on them. Instead the result, 0, is read from workgroup memory
// behind the barrier, and what other workgroups wrote is read at indices that depend on it.
fn wait(tid: u32) -> u32 {
    if tid == 0u {
        var spins = 0u;
        while atomicLoad(&grid_barrier.arrived) < arrivals * WORKGROUPS && spins < SPIN_LIMIT {
            spins++;
        }
        if spins == SPIN_LIMIT {
            barrier_failed = 1u;
            atomicStore(&grid_barrier.timed_out, 1u);
        }
    }
    workgroupBarrier();
    return subgroupBroadcastFirst(barrier_failed >> 1u);
}

// The last workgroup to leave resets the counters for the next dispatch.
fn leave(tid: u32) {
    if tid == 0u && atomicAdd(&grid_barrier.left, 1u) + 1u == WORKGROUPS {
        atomicStore(&grid_barrier.arrived, 0u);
        atomicStore(&grid_barrier.left, 0u);
    }
}
