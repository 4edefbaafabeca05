// idea: one thread per adapter and channel, for TOKENS tokens; it dequantises 32 weights at a time, once for all of them.
// grid: ceil_div(4 * m * ceil_div(rows, TOKENS), WG)
// default: 20
#import lib/lora_up
#import lib/quant/* as w2 binding 2
#import lib/quant/* as a2 binding 3
#import lib/quant/* as v2 binding 4
#import lib/quant/* as g2 binding 5

const WG: u32 = 64u;            // tune: 32 64 128
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const K: u32 = 256u;            // op: k
const RANK_DECAY: u32 = 32u;    // op: rank_decay
const RANK_ICLR: u32 = 32u;     // op: rank_iclr
const RANK_VALUE: u32 = 32u;    // op: rank_value
const RANK_GATE: u32 = 32u;     // op: rank_gate

const_assert RANK_DECAY % 32u == 0u && RANK_ICLR % 32u == 0u;   // ranks in groups of 32
const_assert RANK_VALUE % 32u == 0u && RANK_GATE % 32u == 0u;   // ranks in groups of 32
const_assert K % 4u == 0u;                                      // rows of x begin at a vec4

fn load(adapter: u32, group: u32) -> array<vec4<f32>, 8> {
    switch adapter {
        case 0u: { return w2_load32(group); }
        case 1u: { return a2_load32(group); }
        case 2u: { return v2_load32(group); }
        default: { return g2_load32(group); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    let c = i % params.m;
    let adapter = (i / params.m) % 4u;
    let token = i / (4u * params.m) * TOKENS;
    var ranks = params.ranks;
    let groups = ranks[adapter] / 32u;
    if token >= params.rows || groups == 0u {
        return;
    }
    let row = params.k / 4u;
    let first = column_of(adapter) / 4u;
    var sums: array<f32, TOKENS>;
    for (var group = 0u; group < groups; group++) {
        let weights = load(adapter, c * groups + group);
        for (var t = 0u; t < TOKENS; t++) {
            // Tokens are clamped; sums past the end are dropped.
            let at = min(token + t, params.rows - 1u) * row + first + group * 8u;
            var sum = 0.0;
            for (var j = 0u; j < 8u; j++) {
                sum += dot(weights[j], x[at + j]);
            }
            sums[t] += sum;
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        store_sum(adapter, token + t, c, sums[t]);
    }
}
