// idea: a fixed grid of workgroups splits the rows of all seven matrices; each norms the token's row itself and stages x.
// needs: subgroups
// grid: rows * GRID
// default: 10
// x is rounded for w_r, w_k and w_v only: the errors of rounded adapters would decide over decays and gates.
#import lib/x/f32     // tune: f32 q8
#import phases/norm_products
#import lib/quant/* as w_r binding 8
#import lib/quant/* as w_k binding 9
#import lib/quant/* as w_v binding 10
#import lib/quant/* as w1 binding 11
#import lib/quant/* as a1 binding 12
#import lib/quant/* as v1 binding 13
#import lib/quant/* as g1 binding 14
#import lib/gemv/rows as w_r
#import lib/gemv/rows as w_k
#import lib/gemv/rows as w_v
#import lib/gemv/rows as w1
#import lib/gemv/rows as a1
#import lib/gemv/rows as v1
#import lib/gemv/rows as g1

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const GRID: u32 = SM;           // tune: SM/2 SM 2*SM
const THREADS_PER_ROW: u32 = 16u;   // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 2u;         // tune: 1 2 5
const SUBBLOCKS: u32 = K / 16u;
// The adapters multiply x in f32.
const MIN_SCRATCH: u32 = K / 4u;
const LOADS: u32 = K / w_r_values_per_load;
const WHOLE_LOADS: u32 = (LOADS + THREADS_PER_ROW - 1u) / THREADS_PER_ROW * THREADS_PER_ROW;
const M: u32 = 256u;            // op: m
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert X_IS_F32 || (w_r_has_integers && w_k_has_integers && w_v_has_integers);  // rounded x is multiplied with integers at 16-byte addresses
const_assert X_IS_F32 || (w1_is_float && a1_is_float && v1_is_float && g1_is_float);  // adapters are read as floats
const_assert X_IS_F32 || M >= 32u;              // rounding is judged by the rms of many outputs

// Relative cost of a row of an adapter, in rows of w_r, by the packed loads that each takes; w1, which files keep in F32, has
// more.
const ADAPTER_ROW_COST: u32 = max(w_r_values_per_load / g1_values_per_load, 1u);
const W1_ROW_COST: u32 = max(w_r_values_per_load / w1_values_per_load, 1u);

@group(0) @binding(15) var<storage, read_write> y: array<f32>;    // [5, tokens, m]: r, k, v, hidden values, normed row

// In a persistent kernel the code of one matrix serves all that are in one buffer with it: `same_buffer_index` says which.
const SAME_BUFFER: bool = false;        // same-buffer: w_r w_k w_v by same_buffer_index
const ADAPTERS_SAME_BUFFER: bool = false; // same-buffer: g1 a1 v1 by same_buffer_index
var<private> same_buffer_index: u32;

// The matrix whose code serves this one.
fn code_for(matrix: u32) -> u32 {
    same_buffer_index = matrix % ADAPTERS % 3u;
    if SAME_BUFFER && matrix >= ADAPTERS {
        return ADAPTERS;
    }
    return select(matrix, 3u, ADAPTERS_SAME_BUFFER && matrix > 0u && matrix < ADAPTERS);
}

fn prefetch(matrix: u32, begin: u32, end: u32, thread: Thread) -> array<array<vec4<u32>, ROWS>, UNROLL> {
    let tid = thread.tid;
    switch code_for(matrix) {
        case 0u: { return w1_prefetch(begin, end, tid); }
        case 1u: { return a1_prefetch(begin, end, tid); }
        case 2u: { return v1_prefetch(begin, end, tid); }
        case 3u: { return g1_prefetch(begin, end, tid); }
        case 4u: { return w_r_prefetch(begin, end, tid); }
        case 5u: { return w_k_prefetch(begin, end, tid); }
        default: { return w_v_prefetch(begin, end, tid); }
    }
}

fn gemv_rows(matrix: u32, begin: u32, end: u32, at: u32, thread: Thread, in_flight: array<array<vec4<u32>, ROWS>, UNROLL>) {
    let tid = thread.tid;
    switch code_for(matrix) {
        case 0u: { w1_gemv_rows(begin, end, at, TANH, tid, in_flight); }
        case 1u: { a1_gemv_rows(begin, end, at, NONE, tid, in_flight); }
        case 2u: { v1_gemv_rows(begin, end, at, NONE, tid, in_flight); }
        case 3u: { g1_gemv_rows(begin, end, at, select(NONE, SIGMOID, matrix == 3u), tid, in_flight); }
        case 4u: { w_r_gemv_rows(begin, end, at, NONE, tid, in_flight); }
        case 5u: { w_k_gemv_rows(begin, end, at, NONE, tid, in_flight); }
        default: { w_v_gemv_rows(begin, end, at, NONE, tid, in_flight); }
    }
}

// After this all threads may read what `stage_vec4` has staged.
fn finish_staging(tid: u32) {
    workgroupBarrier();
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    norm_project(workgroup_index(workgroup, grid), thread);
}
