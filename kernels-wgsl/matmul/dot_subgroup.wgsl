// One row of w for LANES invocations of a subgroup, which read its pieces in order. ROWS rows share the columns of x
// that they meet; UNROLL pieces are on their way at once.
#import params
#import unit
#import epilogue
#import reduce_lanes
#import columns_f32
#import piece/f16 as w binding 2
#import row_dots as w

const K: u32 = 256u;            // op: k
const WG: u32 = 64u;            // tune: 64 128 256
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 4
const STAGED: u32 = 0u;         // tune: 0 1
const GROUPS: u32 = WG / LANES;
const TOKENS: u32 = 1u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> staged: array<vec4<f32>, STAGED * (K / 4u) + 1u>;

fn x_quad(i: u32) -> vec4<f32> {
    if STAGED == 1u {
        return staged[i];
    }
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
    let token = unit / row_blocks;
    if token >= params.rows {
        return;
    }
    if STAGED == 1u {
        for (var i = lane; i < K / 4u; i += WG) {
            staged[i] = x[token * (K / 4u) + i];
        }
        workgroupBarrier();
    }
    let row = ((unit % row_blocks) * GROUPS + lane / LANES) * ROWS;
    let own = lane % LANES;
    let x_row = select(token, 0u, STAGED == 1u);
    var sums = w_dots(row, params.window - 1u, x_row, x_row, own);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let sum = lanes_sum(sums[i]);
        if own == 0u && row + i < params.window {
            store(token * params.m + params.first + row + i, sum);
        }
    }
}
