// A barrier among all workgroups of a dispatch, for stages that hand values from one workgroup to another. WGSL does not
// promise that workgroups run at once: who waits in vain gives up, says so, and leaves; so do those who come later.
// Needs `const WORKGROUPS`.
struct Meeting {
    arrived: atomic<u32>,   // at all barriers of this dispatch
    left: atomic<u32>,
    gave_up: atomic<u32>,   // for the host to see; nothing runs until it has cleared it
}
@group(0) @binding(0) var<storage, read_write> meeting: Meeting;

// How often one looks whether the others have come; about 10 ms on a fast GPU. Some software devices end loops at 65,535.
const PATIENCE: u32 = 60000u;

var<workgroup> meeting_failed: u32;
// How often this workgroup has arrived.
var<private> meetings: u32 = 0u;

// Whether an earlier dispatch went wrong.
fn is_called_off(lane: u32) -> bool {
    if lane == 0u {
        meeting_failed = atomicLoad(&meeting.gave_up);
    }
    workgroupBarrier();
    return has_failed();
}

// Compilers see that a whole subgroup decides alike.
fn has_failed() -> bool {
    return subgroupBroadcastFirst(meeting_failed) != 0u;
}

// Says that this workgroup has done what comes before.
fn arrive(lane: u32) {
    storageBarrier();
    workgroupBarrier();
    meetings++;
    if lane == 0u {
        atomicAdd(&meeting.arrived, 1u);
    }
}

// Waits until all workgroups have arrived as often as this one, if they come at all: see `has_failed`. What this workgroup
// sent for since it arrived is on its way meanwhile: a barrier of storage would wait for it. Instead the result, 0, comes out
// of workgroup memory behind the barrier, and what others wrote is read, around the caches, from places that depend on it.
fn wait(lane: u32) -> u32 {
    if lane == 0u {
        var looks = 0u;
        while atomicLoad(&meeting.arrived) < meetings * WORKGROUPS && looks < PATIENCE {
            looks++;
        }
        if looks == PATIENCE {
            meeting_failed = 1u;
            atomicStore(&meeting.gave_up, 1u);
        }
    }
    workgroupBarrier();
    return subgroupBroadcastFirst(meeting_failed >> 1u);
}

// The last to leave makes everything ready for the next dispatch.
fn leave(lane: u32) {
    if lane == 0u && atomicAdd(&meeting.left, 1u) + 1u == WORKGROUPS {
        atomicStore(&meeting.arrived, 0u);
        atomicStore(&meeting.left, 0u);
    }
}
