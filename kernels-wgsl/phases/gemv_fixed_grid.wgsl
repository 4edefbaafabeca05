// The products of one token with a matrix whose rows are split evenly among GRID workgroups. Each stages all of x once. A group
// of SPLIT_K times THREADS_PER_ROW threads takes ROWS rows at a time, UNROLL packed loads of each in flight; where that is
// more than THREADS_PER_ROW, their sums are added in workgroup memory.
// requires: const GRID, K, ROWS, SPLIT_K, THREADS_PER_ROW, UNROLL, WG, X_IS_F32, var scratch, fn stage_x
#import lib/op
#import lib/quant/* as w binding 2

const SUBBLOCKS: u32 = K / 16u;
const GROUP_THREADS: u32 = THREADS_PER_ROW * SPLIT_K;
const THREAD_GROUPS: u32 = WG / GROUP_THREADS;
const LOADS: u32 = K / w_values_per_load;
const K_ITERATIONS: u32 = (LOADS + GROUP_THREADS * UNROLL - 1u) / (GROUP_THREADS * UNROLL);
// A workgroup that splits K has few rows.
const PARTIALS: u32 = min(SPLIT_K - 1u, 1u) * 511u + 1u;

const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const M: u32 = 256u;            // op: m
const SHARD_ROWS: u32 = 256u;   // op: shard_rows
const ROWS_PER_WORKGROUP: u32 = ((SHARD_ROWS + ROWS - 1u) / ROWS + GRID - 1u) / GRID * ROWS;

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert X_IS_F32 || w_has_integers;                // rounded x is multiplied with integers at 16-byte addresses
const_assert X_IS_F32 || M >= 32u;                      // rounding is judged by the rms of many outputs
const_assert GROUP_THREADS <= WG;                       // a thread group fits in a workgroup
const_assert SPLIT_K == 1u || SPLIT_K * ROWS_PER_WORKGROUP <= 512u;     // partial sums fit in workgroup memory
const_assert SPLIT_K == 1u || ROWS_PER_WORKGROUP <= WG;                 // a thread finishes one row

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> partials: array<f32, PARTIALS>;

fn x_vec4(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(scratch[i]);
}

// Row `i` of a group of ROWS, clamped; sums past the end are dropped.
fn row_of(group: u32, i: u32) -> u32 {
    return min(group * ROWS + i, params.shard_rows - 1u);
}

// The words of load `u` of an iteration for a thread of a group, clamped; loads past the end count 0.
fn load_words(group: u32, iteration: u32, u: u32, group_thread: u32) -> array<vec4<u32>, ROWS> {
    let load = min((iteration * UNROLL + u) * GROUP_THREADS + group_thread, LOADS - 1u);
    var words: array<vec4<u32>, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        words[i] = w_load_packed(row_of(group, i), load);
    }
    return words;
}

// What a row's sum is added to.
fn residual_of(token: u32, row: u32) -> f32 {
    return load_residual(token * params.m + params.first + min(row, params.shard_rows - 1u));
}

fn gemv_fixed_grid(index: u32, tid: u32) {
    let token = index / GRID;
    let row_groups = (params.shard_rows + ROWS - 1u) / ROWS;
    let begin = index % GRID * row_groups / GRID;
    let end = (index % GRID + 1u) * row_groups / GRID;
    let group_thread = tid % GROUP_THREADS;
    let row_lane = group_thread % THREADS_PER_ROW;
    // Weights do not depend on x: they are in flight while it is staged.
    let first = select(tid / GROUP_THREADS, end, tid >= THREAD_GROUPS * GROUP_THREADS);
    var words: array<array<vec4<u32>, ROWS>, UNROLL>;
    if begin + first < end {
        for (var u = 0u; u < UNROLL; u++) {     // unroll
            words[u] = load_words(begin + first, 0u, u, group_thread);
        }
    }
    let ready = grid_dependency_wait(tid);
    if token >= params.rows || begin == end {
        return;
    }
    var residual = residual_of(token + ready, select(begin * ROWS + tid, (begin + first) * ROWS + row_lane, SPLIT_K == 1u));
    stage_x(tid, (token + ready) * SUBBLOCKS, 0u, SUBBLOCKS);
    workgroupBarrier();

    // Uniform trip counts: a shuffle under non-uniform control flow compiles to a slow call.
    for (var block = begin; block < end; block += THREAD_GROUPS) {
        let group = block + first;
        var sums: array<f32, ROWS>;
        for (var iteration = 0u; iteration < K_ITERATIONS; iteration++) {
            let is_last = iteration + 1u == K_ITERATIONS;
            let next_rows = select(group, group + THREAD_GROUPS, is_last);
            let next_iteration = select(iteration + 1u, 0u, is_last);
            for (var u = 0u; u < UNROLL; u++) {         // unroll
                let load = (iteration * UNROLL + u) * GROUP_THREADS + group_thread;
                let last = min(load, LOADS - 1u);
                let values = w_load_x(0u, last);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    let weights = w_unpack(row_of(group, i), last, words[u][i]);
                    sums[i] += select(0.0, w_dot(weights, values), load < LOADS);
                }
                // Issued as soon as there are registers: in flight while the other words are multiplied.
                if next_rows < end {
                    words[u] = load_words(next_rows, next_iteration, u, group_thread);
                }
            }
        }
        var sum = 0.0;
        for (var i = 0u; i < ROWS; i++) {               // unroll
            let all = row_sum(sums[i]);
            sum = select(sum, all, row_lane == i);
        }
        let row = group * ROWS + row_lane;
        if row_lane < ROWS && group < end {
            if SPLIT_K > 1u {
                partials[(row - begin * ROWS) * SPLIT_K + group_thread / THREADS_PER_ROW] = sum;
            } else if row < params.shard_rows {
                store_with(token * params.m + params.first + row, residual, sum);
                residual = residual_of(token + ready, row + THREAD_GROUPS * ROWS);
            }
        }
    }

    if SPLIT_K > 1u {
        workgroupBarrier();
        let row = begin * ROWS + tid;
        if row < min(end * ROWS, params.shard_rows) {
            var sum = 0.0;
            for (var i = 0u; i < SPLIT_K; i++) {        // unroll
                sum += partials[tid * SPLIT_K + i];
            }
            store_with(token * params.m + params.first + row, residual, sum);
        }
    }
}
