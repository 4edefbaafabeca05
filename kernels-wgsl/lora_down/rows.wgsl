// One workgroup per hidden column, whichever adapter it belongs to, and TOKENS tokens: invocations take groups of 32
// weights, decoded once for all tokens; sums meet within subgroups first.
#import params
#import unit
#import activation
#import reduce_subgroup
#import weight/f32 as w1 binding 2
#import weight/f16 as a1 binding 3
#import weight/f16 as v1 binding 4
#import weight/f16 as g1 binding 5

const WG: u32 = 32u;            // tune: 32 64 128
const TOKENS: u32 = 1u;         // tune: 1 2 4 8

// The six mixed planes r, w, k, v, a, g.
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

fn load(adapter: u32, group: u32) -> array<vec4<f32>, 8> {
    switch adapter {
        case 0u: { return w1_load32(group); }
        case 1u: { return a1_load32(group); }
        case 2u: { return v1_load32(group); }
        default: { return g1_load32(group); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let column = unit % params.m;
    let token = unit / params.m * TOKENS;
    if token >= params.rows {
        return;
    }
    // Which adapter, and which of its rows.
    var ranks = params.ranks;
    var adapter = 0u;
    var row = column;
    while adapter < 3u && row >= ranks[adapter] {
        row -= ranks[adapter];
        adapter++;
    }
    var planes = vec4(1u, 4u, 3u, 5u);
    let groups = params.k / 32u;
    var sums: array<f32, TOKENS>;
    for (var group = lane; group < groups; group += WG) {
        let weights = load(adapter, row * groups + group);
        for (var t = 0u; t < TOKENS; t++) {
            // Past the last token the last one is read again; its sum is not stored.
            let at = ((planes[adapter] * params.rows + min(token + t, params.rows - 1u)) * groups + group) * 8u;
            var sum = 0.0;
            for (var j = 0u; j < 8u; j++) {
                sum += dot(weights[j], x[at + j]);
            }
            sums[t] += sum;
        }
    }
    var kinds = vec4(TANH, NONE, NONE, SIGMOID);
    for (var t = 0u; t < TOKENS; t++) {
        let sum = workgroup_sum(subgroup, subgroups, subgroup_lane, sums[t]);
        if lane == 0u && token + t < params.rows {
            y[(token + t) * params.m + column] = activate(kinds[adapter], sum);
        }
    }
}
