// As dot_subgroup.wgsl for several tokens: a piece of a row is decoded once and meets TOKENS columns of x.
#import params
#import unit
#import epilogue
#import reduce_lanes
#import columns_f32
#import piece/f16 as w binding 2
#import row_dots as w

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 4u;         // tune: 2 4 8 16
const GROUPS: u32 = WG / LANES;
const UNROLL: u32 = 1u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let row_blocks = (params.window + GROUPS * ROWS - 1u) / (GROUPS * ROWS);
    let token = unit / row_blocks * TOKENS;
    if token >= params.rows {
        return;
    }
    let row = ((unit % row_blocks) * GROUPS + lane / LANES) * ROWS;
    let own = lane % LANES;
    var sums = w_dots(row, params.window - 1u, token, params.rows - 1u, own);
    for (var i = 0u; i < ROWS; i++) {               // unroll
        for (var t = 0u; t < TOKENS; t++) {         // unroll
            let sum = lanes_sum(sums[i * TOKENS + t]);
            if own == 0u && row + i < params.window && token + t < params.rows {
                store((token + t) * params.m + params.first + row + i, sum);
            }
        }
    }
}
