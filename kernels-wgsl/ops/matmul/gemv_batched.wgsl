// idea: THREADS_PER_ROW lanes share ROWS rows; a packed load is unpacked once for TOKENS tokens.
// needs: subgroups
// grid: ceil_div(shard_rows, WG / THREADS_PER_ROW * ROWS) * ceil_div(rows, TOKENS)
// default: 50
#import lib/op
#import lib/x/f32
#import lib/quant/* as w binding 2
#import lib/gemv/dot_rows as w

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const THREADS_PER_ROW: u32 = 32u; // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 4u;         // tune: 2 4 8 16
const GROUPS: u32 = WG / THREADS_PER_ROW;
const UNROLL: u32 = 1u;
const LOADS: u32 = K / w_values_per_load;
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

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
    var sums = w_dot_rows(row, params.shard_rows - 1u, token, params.rows - 1u, row_lane);
    for (var i = 0u; i < ROWS; i++) {               // unroll
        for (var t = 0u; t < TOKENS; t++) {         // unroll
            let sum = row_sum(sums[i * TOKENS + t]);
            if row_lane == 0u && row + i < params.shard_rows && token + t < params.rows {
                store((token + t) * params.m + params.first + row + i, sum);
            }
        }
    }
}
