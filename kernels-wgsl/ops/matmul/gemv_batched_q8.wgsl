// idea: as gemv_batched, x rounded to int8: every workgroup stages x itself, K_TILE values of TOKENS tokens at a time.
// needs: subgroups
// grid: ceil_div(shard_rows, WG / THREADS_PER_ROW * ROWS) * ceil_div(rows, TOKENS)
#import lib/op
#import lib/x/q8
#import lib/quant/* as w binding 2

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const THREADS_PER_ROW: u32 = 32u; // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4 8 16
const K_TILE: u32 = 2560u;      // tune: 1280 2560 10240
const GROUPS: u32 = WG / THREADS_PER_ROW;
const K_TILE_SUBBLOCKS: u32 = min(K_TILE, K) / 16u;
const SUBBLOCKS: u32 = TOKENS * K_TILE_SUBBLOCKS;
const MIN_SCRATCH: u32 = 0u;
const LOADS: u32 = K / w_values_per_load;
const M: u32 = 256u;            // op: m
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert w_has_integers;    // the matrix has integers at 16-byte addresses
const_assert M >= 32u;          // rounding is judged by the rms of many outputs

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let row_blocks = (params.shard_rows + GROUPS * ROWS - 1u) / (GROUPS * ROWS);
    let token = index / row_blocks * TOKENS;
    if token >= params.rows {
        return;
    }
    let row = ((index % row_blocks) * GROUPS + tid / THREADS_PER_ROW) * ROWS;
    let row_lane = tid % THREADS_PER_ROW;
    var sums: array<f32, ROWS * TOKENS>;
    for (var k_begin = 0u; k_begin < K; k_begin += K_TILE) {
        let k_end = min(k_begin + K_TILE, K);
        if k_begin > 0u {
            workgroupBarrier();
        }
        // Rows and tokens are clamped; sums past the end are dropped.
        for (var t = 0u; t < TOKENS; t++) {
            let begin = (min(token + t, params.rows - 1u) * K + k_begin) / 16u;
            stage_x(tid, begin, t * K_TILE_SUBBLOCKS, (k_end - k_begin) / 16u);
        }
        workgroupBarrier();
        for (var load = k_begin / w_values_per_load + row_lane; load < k_end / w_values_per_load; load += THREADS_PER_ROW) {
            var weights: array<w_values, ROWS>;
            for (var i = 0u; i < ROWS; i++) {           // unroll
                weights[i] = w_load(min(row + i, params.shard_rows - 1u), load);
            }
            for (var t = 0u; t < TOKENS; t++) {         // unroll
                let values = w_load_x(t * K_TILE_SUBBLOCKS, load - k_begin / w_values_per_load);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    sums[i * TOKENS + t] += w_dot(weights[i], values);
                }
            }
        }
    }
    for (var i = 0u; i < ROWS; i++) {                   // unroll
        for (var t = 0u; t < TOKENS; t++) {             // unroll
            let sum = row_sum(sums[i * TOKENS + t]);
            if row_lane == 0u && row + i < params.shard_rows && token + t < params.rows {
                store((token + t) * params.m + params.first + row + i, sum);
            }
        }
    }
}
