// idea: one workgroup per segment and COLS columns; threads of a column take tokens in turn, then their sums are added.
// grid: rows * ceil_div(m, COLS)
// default: 10
// Thread t of THREADS_PER_COLUMN adds the tokens t, t + THREADS_PER_COLUMN, ...; their sums are added in order. Where a segment
// is in the batch changes no bit.
#import lib/op

const COLS: u32 = 32u;      // tune: 8 32
const THREADS_PER_COLUMN: u32 = 8u; // tune: 4 8 32
const WG: u32 = COLS * THREADS_PER_COLUMN;

@group(0) @binding(1) var<storage, read> x: array<f32>;                 // [tokens, m]
@group(0) @binding(2) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(3) var<storage, read_write> y: array<f32>;           // [segments, m]

var<workgroup> sums: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let blocks = (params.m + COLS - 1u) / COLS;
    let index = workgroup_index(workgroup, grid);
    let number = index / blocks;
    if number >= params.rows {
        return;
    }
    let segment = segments[number];
    let column = index % blocks * COLS + tid % COLS;
    var sum = 0.0;
    if column < params.m {
        for (var t = tid / COLS; t < segment.y; t += THREADS_PER_COLUMN) {
            sum += x[(segment.x + t) * params.m + column];
        }
    }
    sums[tid] = sum;
    workgroupBarrier();
    if tid < COLS && column < params.m {
        var total = sums[tid];
        for (var l = 1u; l < THREADS_PER_COLUMN; l++) {
            total += sums[l * COLS + tid];
        }
        y[number * params.m + column] = total;
    }
}
