// idea: one workgroup per segment and head, one thread per channel; any rank, any format, no subgroups.
// grid: segments * heads
// default: 20
#import lib/row_reduce/workgroup
#import phases/time_mix_heads
#import lib/quant/* as w2 binding 6
#import lib/quant/* as a2 binding 7
#import lib/quant/* as v2 binding 8
#import lib/quant/* as g2 binding 9

const WG: u32 = N;
const THREADS_PER_ROW: u32 = 1u;
const RANKS: u32 = w2_rank + a2_rank + v2_rank + g2_rank;

@group(0) @binding(1) var<storage, read> x: array<f32>;    // [tokens, k]: hidden values w, a, v, g side by side

var<workgroup> hidden: array<f32, RANKS>;

struct AdapterRows {
    c: u32,
}

fn load_adapter_rows(c: u32, row_thread: u32) -> AdapterRows {
    return AdapterRows(c);
}

fn stage_hidden(token: u32, tid: u32) {
    for (var i = tid; i < RANKS; i += WG) {
        hidden[i] = x[token * params.k + i];
    }
}

fn adapter_shares(rows: AdapterRows, row_thread: u32) -> vec4<f32> {
    var sums = vec4(0.0);
    for (var i = 0u; i < w2_rank; i++) {
        sums.x += hidden[i] * w2_value(rows.c * w2_rank + i);
    }
    for (var i = 0u; i < a2_rank; i++) {
        sums.y += hidden[w2_rank + i] * a2_value(rows.c * a2_rank + i);
    }
    for (var i = 0u; i < v2_rank; i++) {
        sums.z += hidden[w2_rank + a2_rank + i] * v2_value(rows.c * v2_rank + i);
    }
    for (var i = 0u; i < g2_rank; i++) {
        sums.w += hidden[w2_rank + a2_rank + v2_rank + i] * g2_value(rows.c * g2_rank + i);
    }
    return sums;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    time_mix_heads(workgroup_index(workgroup, grid), tid);
}
