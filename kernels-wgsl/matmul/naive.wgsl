// One invocation per element of y, any size, any format: the plainest thing that is right.
#import params
#import unit
#import epilogue
#import weight/f16 as w binding 2

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
    if i >= params.rows * params.window {
        return;
    }
    let token = i / params.window;
    let row = i % params.window;
    var sum = 0.0;
    for (var c = 0u; c < params.k; c++) {
        sum += x[token * params.k + c] * w_at(row * params.k + c);
    }
    let at = token * params.m + params.first + row;
    store(at, sum);
}
