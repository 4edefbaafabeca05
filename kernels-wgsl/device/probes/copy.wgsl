// Copy bandwidth: every round reads all of x and writes it to y, in tiles of 16 KiB that the workgroups take in turn, in coalesced
// accesses of 16 bytes.
#import device/probes/params

@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;          // [elements]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;    // [elements]

const WG: u32 = 256u;
const TILE: u32 = 4u * WG;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    for (var round = 0u; round < params.rounds; round++) {
        for (var tile = workgroup.x * TILE; tile < params.elements; tile += grid.x * TILE) {
            let i = tile + tid;
            let a = x[i];
            let b = x[i + WG];
            let c = x[i + 2u * WG];
            let d = x[i + 3u * WG];
            // Another value each round: no store can be left out.
            y[i] = a + round;
            y[i + WG] = b + round;
            y[i + 2u * WG] = c + round;
            y[i + 3u * WG] = d + round;
        }
    }
}
