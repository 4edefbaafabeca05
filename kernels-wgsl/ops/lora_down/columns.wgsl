// idea: one workgroup per token and hidden column, whichever adapter it belongs to; any size, any format.
// grid: rows * m
// default: 20
#import lib/op
#import lib/reduce/subgroup     // tune: subgroup workgroup
#import lib/quant/* as w1 binding 2
#import lib/quant/* as a1 binding 3
#import lib/quant/* as v1 binding 4
#import lib/quant/* as g1 binding 5

const WG: u32 = 128u;    // tune: 32 64 128

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [6, rows, k]: planes r, w, k, v, a, g
@group(0) @binding(6) var<storage, read_write> y: array<f32>;    // [rows, m]: hidden values w, a, v, g side by side

fn adapter_value(adapter: u32, i: u32) -> f32 {
    switch adapter {
        case 0u: { return w1_value(i); }
        case 1u: { return a1_value(i); }
        case 2u: { return v1_value(i); }
        default: { return g1_value(i); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    if index >= params.rows * params.m {
        return;
    }
    let token = index / params.m;
    // Which adapter, and which of its rows.
    var adapter = 0u;
    var row = index % params.m;
    while adapter < 3u && row >= params.ranks[adapter] {
        row -= params.ranks[adapter];
        adapter++;
    }
    var planes = vec4(1u, 4u, 3u, 5u);
    let start = (planes[adapter] * params.rows + token) * params.k;
    var sum = 0.0;
    for (var c = thread.tid; c < params.k; c += WG) {
        sum += x[start + c] * adapter_value(adapter, row * params.k + c);
    }
    sum = reduce_sum(thread, sum);
    if thread.tid == 0u {
        var kinds = vec4(TANH, NONE, NONE, SIGMOID);
        y[index] = activate(kinds[adapter], sum);
    }
}
