// One invocation per adapter and channel, for TOKENS tokens: it decodes groups of 32 weights once for all of them. x
// holds the adapters' hidden values side by side; y has planes decay, in-context learning rate, value gate, gate.
// Without a value adapter (rank 0) its plane is left alone.
#import params
#import unit
#import activation
#import weight/f32 as w2 binding 2
#import weight/f16 as a2 binding 3
#import weight/f16 as v2 binding 4
#import weight/f16 as g2 binding 5
#import weight/f32 as w0 binding 6
#import weight/f32 as a0 binding 7
#import weight/f32 as v0 binding 8

const WG: u32 = 64u;            // tune: 32 64 128
const TOKENS: u32 = 1u;         // tune: 1 2 4 8

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> y: array<f32>;

fn load(adapter: u32, group: u32) -> array<vec4<f32>, 8> {
    switch adapter {
        case 0u: { return w2_load32(group); }
        case 1u: { return a2_load32(group); }
        case 2u: { return v2_load32(group); }
        default: { return g2_load32(group); }
    }
}

fn finish(adapter: u32, c: u32, sum: f32) -> f32 {
    switch adapter {
        case 0u: { return activate(DECAY, w0_at(c) + sum); }
        case 1u: { return sigmoid(a0_at(c) + sum); }
        case 2u: { return sigmoid(v0_at(c) + sum); }
        default: { return sum; }
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
    var before = vec4(0u, ranks.x, ranks.x + ranks.y, ranks.x + ranks.y + ranks.z);
    let groups = ranks[adapter] / 32u;
    if token >= params.rows || groups == 0u {
        return;
    }
    let row = params.k / 4u;
    var sums: array<f32, TOKENS>;
    for (var group = 0u; group < groups; group++) {
        let weights = load(adapter, c * groups + group);
        for (var t = 0u; t < TOKENS; t++) {
            // Past the last token the last one is read again; its sum is not stored.
            let at = min(token + t, params.rows - 1u) * row + before[adapter] / 4u + group * 8u;
            var sum = 0.0;
            for (var j = 0u; j < 8u; j++) {
                sum += dot(weights[j], x[at + j]);
            }
            sums[t] += sum;
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        if token + t < params.rows {
            y[(adapter * params.rows + token + t) * params.m + c] = finish(adapter, c, sums[t]);
        }
    }
}
