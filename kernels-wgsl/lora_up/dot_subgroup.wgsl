// One row of an adapter for LANES invocations of a subgroup, which read its pieces in order. ROWS rows share the hidden
// values that they meet; a piece is decoded once for TOKENS tokens; UNROLL pieces are on their way at once.
#import unit
#import reduce_lanes
#import lora_up
#import piece/f32 as w2 binding 2
#import piece/f16 as a2 binding 3
#import piece/f16 as v2 binding 4
#import piece/f16 as g2 binding 5
#import adapter_dots as w2
#import adapter_dots as a2
#import adapter_dots as v2
#import adapter_dots as g2

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const LANES: u32 = 8u;          // tune: 4 8 16
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 4u;         // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const BLOCK_ROWS: u32 = WG / LANES * ROWS;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
}

fn shares(adapter: u32, row: u32, token: u32, own: u32) -> array<f32, ROWS * TOKENS> {
    switch adapter {
        case 0u: { return w2_dots(adapter, row, token, own); }
        case 1u: { return a2_dots(adapter, row, token, own); }
        case 2u: { return v2_dots(adapter, row, token, own); }
        default: { return g2_dots(adapter, row, token, own); }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // All of a workgroup's rows are of one adapter; the gate's, the longest as a rule, come first.
    let unit = unit_of(workgroup, grid);
    let blocks = (params.m + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    let adapter = 3u - unit / blocks % 4u;
    let token = unit / (4u * blocks) * TOKENS;
    if token >= params.rows || params.ranks[adapter] == 0u {
        return;
    }
    let row = unit % blocks * BLOCK_ROWS + lane / LANES * ROWS;
    let own = lane % LANES;
    var sums = shares(adapter, row, token, own);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = lanes_sum(sums[i * TOKENS + t]);
            if own == 0u {
                keep(adapter, token + t, row + i, sum);
            }
        }
    }
}
