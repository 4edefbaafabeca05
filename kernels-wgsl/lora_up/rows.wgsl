// One invocation per adapter and channel, for TOKENS tokens: it decodes groups of 32 weights once for all of them.
#import unit
#import lora_up
#import weight/f32 as w2 binding 2
#import weight/f16 as a2 binding 3
#import weight/f16 as v2 binding 4
#import weight/f16 as g2 binding 5

const WG: u32 = 64u;            // tune: 32 64 128
const TOKENS: u32 = 1u;         // tune: 1 2 4 8

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
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
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
            // Past the last token the last one is read again; its sum is not stored.
            let at = min(token + t, params.rows - 1u) * row + first + group * 8u;
            var sum = 0.0;
            for (var j = 0u; j < 8u; j++) {
                sum += dot(weights[j], x[at + j]);
            }
            sums[t] += sum;
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        keep(adapter, token + t, c, sums[t]);
    }
}
