// idea: as gemv_fixed_grid for w_r, w_k and w_v of one K-quant: integer products with x in 15 bits, half a super-block at a time.
// needs: subgroups
// grid: rows * GRID
// The adapters multiply in f32. Which matrix is meant is chosen where it is loaded: code that runs once a layer costs as much to
// fetch as to execute.
#import phases/norm_products
#import lib/gemv/half_blocks as w_r
#import lib/quant/* as w_r binding 8
#import lib/quant/* as w_k binding 9
#import lib/quant/* as w_v binding 10
#import lib/quant/* as w1 binding 11
#import lib/quant/* as a1 binding 12
#import lib/quant/* as v1 binding 13
#import lib/quant/* as g1 binding 14

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const GRID: u32 = SM;           // tune: SM 2*SM
const THREADS_PER_ROW: u32 = 8u;    // tune: 4 8 16 32
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 1u;         // tune: 1 2
const LANES_PER_GROUP: u32 = 8u;    // tune: 8 32
const X_OFFSET: u32 = K / 4u;
// Packed loads of an adapter in flight, in the registers that are there for the matrices.
const ADAPTER_LOADS: u32 = min(ROWS * UNROLL * LOADS, 10u);
// Relative cost of a row of an adapter, in rows of w_r; w1, which files keep in F32, has more loads.
const ADAPTER_ROW_COST: u32 = 20u / LOADS;
const W1_ROW_COST: u32 = ADAPTER_ROW_COST * max(g1_values_per_load / w1_values_per_load, 1u);

const M: u32 = 256u;            // op: m
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert LANES_PER_GROUP <= MIN_SUBGROUP;    // the lanes that quantise together are in one subgroup
const_assert w_r_format == w_k_format && w_r_format == w_v_format;          // one loop serves the three matrices
const_assert w1_is_float && a1_is_float && v1_is_float && g1_is_float;      // adapters are read as floats
const_assert a1_format == g1_format && (!v1_is_present || v1_format == g1_format);     // one loop serves the adapters but w1
const_assert M >= 32u;          // rounding is judged by the rms of many outputs

@group(0) @binding(15) var<storage, read_write> y: array<f32>;    // [5, tokens, m]: r, k, v, hidden values, normed row

// x in f32, and behind it as integers.
var<workgroup> scratch: array<vec4<u32>, X_OFFSET + INTEGERS>;

// In a persistent kernel the code of one matrix serves all that are in one buffer with it: `same_buffer_index` says which.
const SAME_BUFFER: bool = false;        // same-buffer: w_r w_k w_v by same_buffer_index
const ADAPTERS_SAME_BUFFER: bool = false; // same-buffer: g1 a1 v1 by same_buffer_index
var<private> same_buffer_index: u32;

// The matrix whose rows are loaded.
var<private> loaded: u32;

fn load_half_blocks(row: u32, end: u32, half_block: u32) -> array<HalfBlockWords, ROWS> {
    if SAME_BUFFER {
        return w_r_load_half_blocks(row, end, half_block);
    }
    switch loaded {
        case 4u: { return w_r_load_half_blocks(row, end, half_block); }
        case 5u: { return w_k_load_half_blocks(row, end, half_block); }
        default: { return w_v_load_half_blocks(row, end, half_block); }
    }
}

fn load_adapter(row: u32, end: u32, first: u32, step: u32) -> InFlight {
    if row >= end {
        return InFlight();
    }
    if ADAPTERS_SAME_BUFFER && loaded > 0u {
        return g1_load_in_flight(row, first, step);
    }
    switch loaded {
        case 0u: { return w1_load_in_flight(row, first, step); }
        case 1u: { return a1_load_in_flight(row, first, step); }
        case 2u: { return v1_load_in_flight(row, first, step); }
        default: { return g1_load_in_flight(row, first, step); }
    }
}

fn dot_adapter(row: u32, load: u32, packed: vec4<u32>) -> f32 {
    if loaded == 0u {
        return w1_dot(w1_unpack(row, load, packed), w1_load_x(0u, load));
    }
    return g1_dot(g1_unpack(row, load, packed), g1_load_x(0u, load));
}

fn prefetch(matrix: u32, begin: u32, end: u32, thread: Thread) -> InFlight {
    loaded = matrix;
    same_buffer_index = matrix % ADAPTERS % 3u;
    if matrix >= ADAPTERS {
        return w_r_prefetch(begin, end, thread.tid);
    }
    return load_adapter(begin + thread.subgroup, end, thread.lane, WG / thread.num_subgroups);
}

// The products of rows of an adapter, each by a subgroup, in uniform trip counts.
fn gemv_adapter(begin: u32, end: u32, at: u32, kind: u32, thread: Thread, in_flight: InFlight) {
    let loads = select(K / g1_values_per_load, K / w1_values_per_load, loaded == 0u);
    let step = WG / thread.num_subgroups;
    let lane = thread.lane;
    var words = in_flight;
    for (var block = begin; block < end; block += thread.num_subgroups) {
        let row = block + thread.subgroup;
        var sum = 0.0;
        for (var iteration = 0u; iteration < loads; iteration += ADAPTER_LOADS * step) {
            for (var u = 0u; u < ADAPTER_LOADS; u++) { // unroll
                let load = iteration + u * step + lane;
                let packed = words[u / LOADS / ROWS][u / LOADS % ROWS][u % LOADS];
                sum += select(0.0, dot_adapter(row, min(load, loads - 1u), packed), load < loads);
            }
            // The same row's next iteration, or the first one of the next row.
            let goes_on = iteration + ADAPTER_LOADS * step < loads;
            let next = lane + select(0u, iteration + ADAPTER_LOADS * step, goes_on);
            words = load_adapter(select(row + thread.num_subgroups, row, goes_on), end, next, step);
        }
        let all = subgroupAdd(sum);
        if lane == 0u && row < end {
            y[at + row] = activate(kind, all);
        }
    }
}

fn gemv_rows(matrix: u32, begin: u32, end: u32, at: u32, thread: Thread, in_flight: InFlight) {
    if matrix >= ADAPTERS {
        w_r_gemv_rows(begin, end, at, NONE, thread.tid, in_flight);
    } else {
        var kinds = array(TANH, NONE, NONE, SIGMOID);
        gemv_adapter(begin, end, at, kinds[matrix], thread, in_flight);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    norm_project(workgroup_index(workgroup, grid), thread);
}
