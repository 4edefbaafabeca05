// idea: one workgroup per ROWS rows and TOKENS tokens; threads dequantise 32 weights at a time, then sums are reduced.
// grid: ceil_div(shard_rows, ROWS) * ceil_div(rows, TOKENS)
// default: 80
#import lib/op
#import lib/reduce/subgroup     // tune: subgroup workgroup
#import lib/quant/* as w binding 2

const WG: u32 = 64u;            // tune: 32 64 128 256
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4
const K: u32 = 256u;            // op: k

const_assert K % 32u == 0u;     // k in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    let row_blocks = (params.shard_rows + ROWS - 1u) / ROWS;
    let row = (index % row_blocks) * ROWS;
    let token = (index / row_blocks) * TOKENS;
    if token >= params.rows {
        return;
    }
    let groups = params.k / 32u;
    var sums: array<f32, ROWS * TOKENS>;
    for (var group = thread.tid; group < groups; group += WG) {
        for (var i = 0u; i < ROWS; i++) {
            // Rows are clamped; sums past the end are dropped.
            let weights = w_load32(min(row + i, params.shard_rows - 1u) * groups + group);
            for (var t = 0u; t < TOKENS; t++) {
                let at = (min(token + t, params.rows - 1u) * groups + group) * 8u;
                var sum = 0.0;
                for (var j = 0u; j < 8u; j++) {
                    sum += dot(weights[j], x[at + j]);
                }
                sums[i * TOKENS + t] += sum;
            }
        }
    }
    for (var i = 0u; i < ROWS; i++) {
        for (var t = 0u; t < TOKENS; t++) {
            let sum = reduce_sum(thread, sums[i * TOKENS + t]);
            if thread.tid == 0u && row + i < params.shard_rows && token + t < params.rows {
                let at = (token + t) * params.m + params.first + row + i;
                store(at, sum);
            }
        }
    }
}
