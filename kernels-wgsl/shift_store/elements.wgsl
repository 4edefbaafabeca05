// One invocation per segment and column. Rows of x may be longer than those of the state.
#import params
#import unit

const WG: u32 = 256u;           // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> state: array<f32>;
@group(0) @binding(3) var<storage, read> segments: array<vec4<u32>>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
    if i >= params.segments * params.m {
        return;
    }
    let segment = segments[i / params.m];
    let c = i % params.m;
    state[segment.z * params.m + c] = x[(segment.x + segment.y - 1u) * params.k + c];
}
