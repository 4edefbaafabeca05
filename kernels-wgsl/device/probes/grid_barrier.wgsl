// The cost of a barrier among all workgroups of a dispatch. WGSL does not promise that they all run at once: a wait that times out
// after `spins` spins says so, and then all leave.
#import device/probes/params

struct GridBarrier {
    arrived: atomic<u32>,
    timed_out: atomic<u32>,
    unseen: atomic<u32>,        // times a workgroup did not see what another wrote before the barrier
    rounds: atomic<u32>,        // finished, of all workgroups
    notes: array<atomic<u32>>,  // one a workgroup
}
@group(0) @binding(2) var<storage, read_write> y: GridBarrier;    // [1], and [workgroups] notes

const WG: u32 = 256u;

var<workgroup> stop: u32;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    for (var round = 1u; round <= params.rounds; round++) {
        if tid == 0u {
            atomicStore(&y.notes[workgroup.x], round);
        }
        storageBarrier();
        workgroupBarrier();
        if tid == 0u {
            atomicAdd(&y.arrived, 1u);
            let all = round * params.workgroups;
            var spins = 0u;
            while atomicLoad(&y.arrived) < all && spins < params.spins && atomicLoad(&y.timed_out) == 0u {
                spins++;
            }
            if atomicLoad(&y.arrived) < all {
                atomicStore(&y.timed_out, 1u);
            }
            // Two notes may be a round apart, never more: no second barrier is needed before the next note.
            if atomicLoad(&y.notes[(workgroup.x + 1u) % params.workgroups]) < round {
                atomicAdd(&y.unseen, 1u);
            }
            stop = atomicLoad(&y.timed_out);
        }
        if workgroupUniformLoad(&stop) != 0u {
            return;
        }
        if tid == 0u {
            atomicAdd(&y.rounds, 1u);
        }
    }
}
