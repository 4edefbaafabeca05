// idea: as gemv_fixed_grid for K-quants: integer products with x in 15 bits, half a super-block at a time.
// needs: subgroups
// grid: GRID * rows
#import lib/op
#import lib/gemv/half_blocks as w
#import lib/quant/* as w binding 2

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const GRID: u32 = SM;           // tune: SM 2*SM
const THREADS_PER_ROW: u32 = 8u; // tune: 4 8 16 32
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 1u;         // tune: 1 2
const LANES_PER_GROUP: u32 = 8u; // tune: 8 32
const X_OFFSET: u32 = 0u;
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const M: u32 = 256u;            // op: m

const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert LANES_PER_GROUP <= MIN_SUBGROUP;    // the lanes that quantise together are in one subgroup
const_assert M >= 32u;          // rounding is judged by the rms of many outputs

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> scratch: array<vec4<u32>, INTEGERS>;

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

fn load_half_blocks(row: u32, end: u32, half_block: u32) -> array<HalfBlockWords, ROWS> {
    return w_load_half_blocks(row, end, half_block);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let token = index / GRID;
    let begin = index % GRID * params.shard_rows / GRID;
    let end = (index % GRID + 1u) * params.shard_rows / GRID;
    let in_flight = w_prefetch(begin, end, tid);
    let ready = grid_dependency_wait(tid);
    if token >= params.rows || begin == end {
        return;
    }
    stage_x(tid, (token + ready) * (K / 4u));
    workgroupBarrier();
    w_gemv_rows(begin, end, (token + ready) * params.m + params.first, ACTIVATION, tid, in_flight);
}
