// A barrier among all workgroups of a dispatch. WGSL does not promise that they all run at once: whoever waits gives up
// after `spins` looks and says so, and then all leave.
#import lab/params

struct Meeting {
    arrived: atomic<u32>,
    gave_up: atomic<u32>,
    unseen: atomic<u32>,        // times a workgroup did not see what another wrote before the barrier
    rounds: atomic<u32>,        // finished, of all workgroups
    notes: array<atomic<u32>>,  // one a workgroup
}
@group(0) @binding(2) var<storage, read_write> y: Meeting;

const WG: u32 = 256u;

var<workgroup> stop: u32;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    for (var round = 1u; round <= params.rounds; round++) {
        if lane == 0u {
            atomicStore(&y.notes[workgroup.x], round);
        }
        storageBarrier();
        workgroupBarrier();
        if lane == 0u {
            atomicAdd(&y.arrived, 1u);
            let all = round * params.workgroups;
            var looks = 0u;
            while atomicLoad(&y.arrived) < all && looks < params.spins && atomicLoad(&y.gave_up) == 0u {
                looks++;
            }
            if atomicLoad(&y.arrived) < all {
                atomicStore(&y.gave_up, 1u);
            }
            // Two notes may be a round apart, never more: no second barrier is needed before the next note.
            if atomicLoad(&y.notes[(workgroup.x + 1u) % params.workgroups]) < round {
                atomicAdd(&y.unseen, 1u);
            }
            stop = atomicLoad(&y.gave_up);
        }
        if workgroupUniformLoad(&stop) != 0u {
            return;
        }
        if lane == 0u {
            atomicAdd(&y.rounds, 1u);
        }
    }
}
