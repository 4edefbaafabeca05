// One workgroup per segment and head; neighbours of a subgroup share a channel, and read its rows of the adapters in pieces.
#import unit
#import row_sum_subgroup
#import columns_f32
#import time_mix_heads
#import piece/f32 as w2 binding 6
#import piece/f16 as a2 binding 7
#import piece/f16 as v2 binding 8
#import piece/f16 as g2 binding 9
#import head_rows as w2
#import head_rows as a2
#import head_rows as v2
#import head_rows as g2

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 128 256 512 640
const LANES: u32 = 8u;          // tune: 4 8 16
// As many neighbours as there are for each channel, a power of two. WG is one, or 640, of which 512 are used.
const SPLIT: u32 = min(min(LANES, QUADS), max(WG - WG % 512u, WG % 512u) / N);
const ROOM: u32 = (w2_rank + a2_rank + v2_rank + g2_rank) / 4u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;

var<workgroup> room: array<vec4<u32>, ROOM>;

struct Rows {
    c: u32,
    w2: array<vec4<u32>, w2_loads>,
    a2: array<vec4<u32>, a2_loads>,
    v2: array<vec4<u32>, v2_loads>,
    g2: array<vec4<u32>, g2_loads>,
}

fn rows_of(c: u32, part: u32) -> Rows {
    return Rows(c, w2_row(c, part), a2_row(c, part), v2_row(c, part), g2_row(c, part));
}

fn x_quad(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(room[i]);
}

fn hold_hidden(token: u32, lane: u32) {
    for (var i = lane; i < ROOM; i += WG) {
        room[i] = bitcast<vec4<u32>>(x[token * (K / 4u) + i]);
    }
}

fn shares(rows: Rows, part: u32) -> vec4<f32> {
    return vec4(
        w2_share(rows.c, rows.w2, 0u, part),
        a2_share(rows.c, rows.a2, w2_rank, part),
        v2_share(rows.c, rows.v2, w2_rank + a2_rank, part),
        g2_share(rows.c, rows.g2, w2_rank + a2_rank + v2_rank, part),
    );
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    time_mix_heads(unit_of(workgroup, grid), lane);
}
