// Read-only bandwidth: every round reads all of x once, in tiles of 16 KiB that the workgroups take in turn, in coalesced loads of
// 16 bytes, four in flight a thread.
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;          // [elements]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;    // [workgroups, WG]

const WG: u32 = 256u;
const TILE: u32 = 4u * WG;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    var sums: array<vec4<u32>, 4>;
    for (var round = 0u; round < params.rounds; round++) {
        for (var tile = workgroup.x * TILE; tile < params.elements; tile += grid.x * TILE) {
            let i = tile + tid;
            sums[0] += x[i];
            sums[1] += x[i + WG];
            sums[2] += x[i + 2u * WG];
            sums[3] += x[i + 3u * WG];
        }
    }
    y[workgroup.x * WG + tid] = (sums[0] ^ sums[1]) + (sums[2] ^ sums[3]);
}
