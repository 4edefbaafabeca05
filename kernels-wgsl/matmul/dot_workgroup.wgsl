// As dot_subgroup.wgsl, but all of the workgroup reads a row: for long rows, or so few that subgroups would be idle.
#import params
#import unit
#import epilogue
#import columns_f32
#import piece/f16 as w binding 2
#import row_dots as w

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const ROWS: u32 = 4u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 4
const LANES: u32 = WG;
const TOKENS: u32 = 1u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// Sums of the subgroups, which have at least 4 invocations.
var<workgroup> partials: array<f32, ROWS * WG / 4u>;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
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
    let row_blocks = (params.window + ROWS - 1u) / ROWS;
    let row = (unit % row_blocks) * ROWS;
    let token = unit / row_blocks;
    if token >= params.rows {
        return;
    }
    var sums = w_dots(row, params.window - 1u, token, token, lane);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let sum = subgroupAdd(sums[i]);
        if subgroup_lane == 0u {
            partials[i * subgroups + subgroup] = sum;
        }
    }
    workgroupBarrier();
    if lane < ROWS && row + lane < params.window {
        var sum = 0.0;
        for (var i = 0u; i < subgroups; i++) {
            sum += partials[lane * subgroups + i];
        }
        store(token * params.m + params.first + row + lane, sum);
    }
}
