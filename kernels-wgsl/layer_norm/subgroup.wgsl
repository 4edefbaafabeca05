// As workgroup.wgsl, summing within subgroups first: two barriers a sum instead of seven.
#import params
#import unit
#import reduce_subgroup

const WG: u32 = 256u;   // tune: 32 64 128 256 512 1024

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> scale: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    let row = unit_of(workgroup, grid);
    if row >= params.rows {
        return;
    }
    let start = row * params.k;
    var sum = 0.0;
    for (var c = lane; c < params.k; c += WG) {
        sum += x[start + c];
    }
    let mean = workgroup_sum(subgroup, subgroups, subgroup_lane, sum) / f32(params.k);
    var squares = 0.0;
    for (var c = lane; c < params.k; c += WG) {
        let d = x[start + c] - mean;
        squares += d * d;
    }
    let deviation = inverseSqrt(workgroup_sum(subgroup, subgroups, subgroup_lane, squares) / f32(params.k) + params.eps);
    for (var c = lane; c < params.k; c += WG) {
        y[start + c] = (x[start + c] - mean) * deviation * scale[c] + bias[c];
    }
}
