// idea: one workgroup per hidden column and TOKENS tokens; threads dequantise 32 weights at a time, once for all tokens.
// grid: m * ceil_div(rows, TOKENS)
// default: 10
#import lib/op
#import lib/reduce/subgroup
#import lib/quant/* as w1 binding 2
#import lib/quant/* as a1 binding 3
#import lib/quant/* as v1 binding 4
#import lib/quant/* as g1 binding 5

const K: u32 = 256u;            // op: k
const WG: u32 = 32u;            // tune: 32 64 128
const TOKENS: u32 = 1u;         // tune: 1 2 4 8

const_assert K % 32u == 0u;     // k in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [6, rows, k]: planes r, w, k, v, a, g
@group(0) @binding(6) var<storage, read_write> y: array<f32>;    // [rows, m]: hidden values w, a, v, g side by side

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
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    let column = index % params.m;
    let token = index / params.m * TOKENS;
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
    for (var group = thread.tid; group < groups; group += WG) {
        let weights = load(adapter, row * groups + group);
        for (var t = 0u; t < TOKENS; t++) {
            // Tokens are clamped; sums past the end are dropped.
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
        let sum = reduce_sum(thread, sums[t]);
        if thread.tid == 0u && token + t < params.rows {
            y[(token + t) * params.m + column] = activate(kinds[adapter], sum);
        }
    }
}
