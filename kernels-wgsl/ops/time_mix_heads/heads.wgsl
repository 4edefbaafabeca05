// idea: one workgroup per segment and head; lanes of a subgroup share a channel and read its adapter rows in packed loads.
// needs: subgroups
// grid: segments * heads
// default: 10
#import lib/row_reduce/subgroup
#import phases/time_mix_heads
#import lib/quant/* as w2 binding 6
#import lib/quant/* as a2 binding 7
#import lib/quant/* as v2 binding 8
#import lib/quant/* as g2 binding 9
#import lib/gemv/adapter_row as w2
#import lib/gemv/adapter_row as a2
#import lib/gemv/adapter_row as v2
#import lib/gemv/adapter_row as g2

const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 128 256 512 640
const MAX_THREADS_PER_ROW: u32 = 8u; // tune: 4 8 16
// As many threads as there are for each channel, a power of two. WG is one, or 640, of which 512 are used.
const THREADS_PER_ROW: u32 = min(min(MAX_THREADS_PER_ROW, VEC4S), max(WG - WG % 512u, WG % 512u) / N);

const_assert MAX_THREADS_PER_ROW <= MIN_SUBGROUP;                       // the threads of a row are in one subgroup
const_assert w2_is_float && a2_is_float && v2_is_float && g2_is_float;  // adapters are read as floats
const_assert K % 8u == 0u && w2_rank % 8u == 0u && a2_rank % 8u == 0u;  // hidden values begin at a load
const_assert v2_rank % 8u == 0u && g2_rank % 8u == 0u;                  // hidden values begin at a load
const_assert N == 16u || N == 32u || N == 64u || N == 128u || N == 256u;    // heads are a power of two
const_assert WG >= N;                                                   // a thread for every channel

const SCRATCH: u32 = (w2_rank + a2_rank + v2_rank + g2_rank) / 4u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [tokens, k]: hidden values w, a, v, g side by side

var<workgroup> scratch: array<vec4<u32>, SCRATCH>;

struct AdapterRows {
    c: u32,
    w2: array<vec4<u32>, w2_loads_per_thread>,
    a2: array<vec4<u32>, a2_loads_per_thread>,
    v2: array<vec4<u32>, v2_loads_per_thread>,
    g2: array<vec4<u32>, g2_loads_per_thread>,
}

fn load_adapter_rows(c: u32, row_thread: u32) -> AdapterRows {
    return AdapterRows(
        c,
        w2_load_row(c, row_thread),
        a2_load_row(c, row_thread),
        v2_load_row(c, row_thread),
        g2_load_row(c, row_thread),
    );
}

fn x_vec4(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(scratch[i]);
}

fn stage_hidden(token: u32, tid: u32) {
    for (var i = tid; i < SCRATCH; i += WG) {
        scratch[i] = bitcast<vec4<u32>>(x[token * (K / 4u) + i]);
    }
}

fn adapter_shares(rows: AdapterRows, row_thread: u32) -> vec4<f32> {
    return vec4(
        w2_share(rows.c, rows.w2, 0u, row_thread),
        a2_share(rows.c, rows.a2, w2_rank, row_thread),
        v2_share(rows.c, rows.v2, w2_rank + a2_rank, row_thread),
        g2_share(rows.c, rows.g2, w2_rank + a2_rank + v2_rank, row_thread),
    );
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    time_mix_heads(workgroup_index(workgroup, grid), tid);
}
