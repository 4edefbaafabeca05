// idea: one thread per segment and column; rows of x may be longer than those of the state.
// grid: ceil_div(segments * m, WG)
// default: 10
#import lib/op

const WG: u32 = 256u;           // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [tokens, k]: the first m columns count
@group(0) @binding(2) var<storage, read_write> state: array<f32>;       // [slots, m]
@group(0) @binding(3) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.segments * params.m {
        return;
    }
    let segment = segments[i / params.m];
    let c = i % params.m;
    state[segment.z * params.m + c] = x[(segment.x + segment.y - 1u) * params.k + c];
}
