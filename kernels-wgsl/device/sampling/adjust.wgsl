// Sampling, before the first step: fills in the adjustments that are not zero. A thread per entry.
#import device/sampling/layout

const WG: u32 = 64u;

struct Entry {
    at: u32,        // sequence * vocab + token; each has one entry at most
    own: Adjustment,
}

@group(0) @binding(1) var<storage, read> entries: array<Entry>;    // [entries]
@group(0) @binding(2) var<storage, read_write> adjustments: array<Adjustment>;    // [sequences, vocab], zeros

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid) * WG + tid;
    if index < arrayLength(&entries) {
        adjustments[entries[index].at] = entries[index].own;
    }
}
