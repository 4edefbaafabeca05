// One workgroup per token and hidden column, whichever adapter it belongs to. Reduces in workgroup memory.
#import params
#import unit
#import activation
#import reduce_workgroup
#import weight/f32 as w1 binding 2
#import weight/f16 as a1 binding 3
#import weight/f16 as v1 binding 4
#import weight/f16 as g1 binding 5

const WG: u32 = 64u;    // tune: 32 64 128

// The six mixed planes r, w, k, v, a, g.
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn term(adapter: u32, i: u32) -> f32 {
    switch adapter {
        case 0u: { return w1_at(i); }
        case 1u: { return a1_at(i); }
        case 2u: { return v1_at(i); }
        default: { return g1_at(i); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    if unit >= params.rows * params.m {
        return;
    }
    let token = unit / params.m;
    // Which adapter, and which of its rows.
    var adapter = 0u;
    var row = unit % params.m;
    while adapter < 3u && row >= params.ranks[adapter] {
        row -= params.ranks[adapter];
        adapter++;
    }
    var planes = vec4(1u, 4u, 3u, 5u);
    let start = (planes[adapter] * params.rows + token) * params.k;
    var sum = 0.0;
    for (var c = lane; c < params.k; c += WG) {
        sum += x[start + c] * term(adapter, row * params.k + c);
    }
    sum = workgroup_sum(lane, sum);
    if lane == 0u {
        var kinds = vec4(TANH, NONE, NONE, SIGMOID);
        y[unit] = activate(kinds[adapter], sum);
    }
}
