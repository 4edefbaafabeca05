// One workgroup per segment and head, one invocation per channel; any rank, any format, no subgroups.
#import unit
#import row_sum_workgroup
#import time_mix_heads
#import weight/f32 as w2 binding 6
#import weight/f16 as a2 binding 7
#import weight/f16 as v2 binding 8
#import weight/f16 as g2 binding 9

const WG: u32 = N;
const SPLIT: u32 = 1u;
const RANKS: u32 = w2_rank + a2_rank + v2_rank + g2_rank;

@group(0) @binding(1) var<storage, read> x: array<f32>;

var<workgroup> hidden: array<f32, RANKS>;

struct Rows {
    c: u32,
}

fn rows_of(c: u32, part: u32) -> Rows {
    return Rows(c);
}

fn hold_hidden(token: u32, lane: u32) {
    for (var i = lane; i < RANKS; i += WG) {
        hidden[i] = x[token * params.k + i];
    }
}

fn shares(rows: Rows, part: u32) -> vec4<f32> {
    var sums = vec4(0.0);
    for (var i = 0u; i < w2_rank; i++) {
        sums.x += hidden[i] * w2_at(rows.c * w2_rank + i);
    }
    for (var i = 0u; i < a2_rank; i++) {
        sums.y += hidden[w2_rank + i] * a2_at(rows.c * a2_rank + i);
    }
    for (var i = 0u; i < v2_rank; i++) {
        sums.z += hidden[w2_rank + a2_rank + i] * v2_at(rows.c * v2_rank + i);
    }
    for (var i = 0u; i < g2_rank; i++) {
        sums.w += hidden[w2_rank + a2_rank + v2_rank + i] * g2_at(rows.c * g2_rank + i);
    }
    return sums;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    time_mix_heads(unit_of(workgroup, grid), lane);
}
