// The products of one token with a matrix of K-quants whose rows are dealt evenly to UNITS workgroups, each of which rounds all
// of x to fifteen bits once and multiplies integers, half a block at a time.
#import unit
#import params
#import others
#import columns_blocks
#import block_loads as w
#import block_rows as w
#import block/q4_k as w binding 2

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const UNITS: u32 = 132u;        // tune: 132 264
const LANES: u32 = 8u;          // tune: 4 8 16 32
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 1u;         // tune: 1 2
const NEIGHBOURS: u32 = 8u;     // tune: 8 32
const HELD: u32 = 0u;
const ROOM: u32 = INTEGERS;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> room: array<vec4<u32>, ROOM>;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
}

fn round_of(row: u32, end: u32, half: u32) -> array<HalfWords, ROWS> {
    return w_round(row, end, half);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let token = unit / UNITS;
    let begin = unit % UNITS * params.window / UNITS;
    let end = (unit % UNITS + 1u) * params.window / UNITS;
    let ahead = w_ahead(begin, end, lane);
    let ready = others_done(lane);
    if token >= params.rows || begin == end {
        return;
    }
    round_columns(lane, (token + ready) * (K / 4u));
    workgroupBarrier();
    w_deal(begin, end, (token + ready) * params.m + params.first, ACTIVATION, lane, ahead);
}
