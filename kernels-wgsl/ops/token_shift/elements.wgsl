// idea: one thread per element; that of a segment's first token reads the state, then overwrites it.
// grid: ceil_div(rows * m, WG)
// default: 10
// The state takes the segment's last row. No other thread touches that element.
#import lib/op

const WG: u32 = 64u;    // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [tokens, m]
@group(0) @binding(2) var<storage, read_write> state: array<f32>;       // [slots, m]
@group(0) @binding(3) var<storage, read> token_segments: array<u32>;    // [tokens]
@group(0) @binding(4) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(5) var<storage, read_write> y: array<f32>;           // [tokens, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.rows * params.m {
        return;
    }
    let token = i / params.m;
    let c = i % params.m;
    let segment = segments[token_segments[token]];
    let first = segment.x;
    if token == first {
        let at = segment.z * params.m + c;
        y[i] = state[at] - x[i];
        state[at] = x[(first + segment.y - 1u) * params.m + c];
    } else {
        y[i] = x[i - params.m] - x[i];
    }
}
